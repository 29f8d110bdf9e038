// Records as JSON documents, the way the store keeps them.
//
// Each document has "v": 1. Reading ignores members it does not know, gives members that are
// missing their defaults, and refuses another "v" and values of the wrong type. What is written
// reads back equal. Times are milliseconds, enums are words.
// Errors: name the record's member. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "store/store.h"

namespace berth::store {

std::string encode(const ServiceRecord& record);
std::string encode(const ReplicaRecord& record);
std::string encode(const LeaseRecord& record);
std::string encode(const KeyRecord& record);
std::string encode(const GrantRecord& record);

template <class Record>
Result<Record> decode(std::string_view document);

extern template Result<ServiceRecord> decode(std::string_view);
extern template Result<ReplicaRecord> decode(std::string_view);
extern template Result<LeaseRecord> decode(std::string_view);
extern template Result<KeyRecord> decode(std::string_view);
extern template Result<GrantRecord> decode(std::string_view);

}  // namespace berth::store
