#include <cstdio>

int main() {
  std::puts("berth " BERTH_VERSION);
  return 0;
}
