#include "model/end_lead.h"

#include <algorithm>

namespace berth {

Duration end_lead(Duration drain_grace, std::optional<Duration> run, Duration engine_stop,
                  Duration end_margin) {
  const Duration full = drain_grace + engine_stop + end_margin;
  if (!run) return full;
  return std::clamp(*run / 3, Duration(0), full);
}

}  // namespace berth
