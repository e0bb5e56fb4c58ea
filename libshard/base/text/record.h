// Records of documents. A record has one table with a row per field, in the order in which a
// document has them, and is read and written by it:
//
//   constexpr Field<AssetRecord> kAssetFields[] = {
//       {"file", As<&AssetRecord::file, ReadAssetPath>},
//       {"size", As<&AssetRecord::size, &JsonFields::Unsigned>},
//       {"note", AsText<&AssetRecord::note>, Presence::kOptional},
//   };
//
//   Json out = ToJson(kAssetFields, asset);
//   SHARD_TRY(AssetRecord asset, ReadRecord(kAssetFields, where, value));
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "libshard/base/result.h"
#include "libshard/base/text/cat.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/json_values.h"

namespace moepack {

enum class Presence {
  kRequired,   // readers refuse an object without it
  kDefaulted,  // always written; where it is absent or null, the member keeps its initial value
  kOptional,   // the same for readers; written only if it is set
};

// How a value that was read can be checked by those who have what the record was made from.
enum class Proof {
  kEqual,  // it must be what they would write
  kRule,   // a rule of its own says what it must be
  kNone,   // only the writer can know it
};

// How a field is read into a record and written.
template <class Record>
struct Form {
  Json (*write)(const Record& record);
  Status (*read)(const JsonFields& fields, const char* name, Record& record);
  bool (*is_set)(const Record& record) = nullptr;  // null only if it is always there
};

template <class Record>
struct Field {
  const char* name;
  Form<Record> form;
  Presence presence = Presence::kRequired;
  Proof proof = Proof::kEqual;

  bool IsWritten(const Record& record) const {
    return presence != Presence::kOptional || form.is_set(record);
  }
};

// False for no value, no text, no entries, zero, and for what is not a number in JSON.
template <class Value>
bool IsSet(const Value& value) {
  if constexpr (std::is_same_v<Value, std::optional<double>>) {
    return value && std::isfinite(*value);
  } else if constexpr (requires { value.has_value(); }) {
    return value.has_value();
  } else if constexpr (requires { value.empty(); }) {
    return !value.empty();
  } else {
    return value != Value();
  }
}

namespace record_detail {

template <class Record, class Value>
Record RecordOf(Value Record::*);
template <class Record, class Value>
Value ValueOf(Value Record::*);

template <class Value>
Value BareValueOf(const Value&);
template <class Value>
Value BareValueOf(const std::optional<Value>&);

// The value as JSON, by `kWrite` if there is one; null for an optional without a value.
template <auto kWrite, class Value>
Json WriteValue(const Value& value) {
  if constexpr (requires { value.has_value(); }) {
    return value ? WriteValue<kWrite>(*value) : Json(nullptr);
  } else if constexpr (std::is_null_pointer_v<decltype(kWrite)>) {
    return value;
  } else {
    return kWrite(value);
  }
}

template <auto kMember, auto kRead, auto kWrite>
struct MemberForm {
  using Record = decltype(RecordOf(kMember));
  using Value = decltype(ValueOf(kMember));

  static Json Write(const Record& record) { return WriteValue<kWrite>(record.*kMember); }
  static Status Read(const JsonFields& fields, const char* name, Record& record) {
    SHARD_TRY(record.*kMember, std::invoke(kRead, fields, name));
    return Ok();
  }
  static bool IsMemberSet(const Record& record) { return IsSet(record.*kMember); }
};

}  // namespace record_detail

// The type of a member, or of its value if it may have none.
template <auto kMember>
using ValueIn =
    decltype(record_detail::BareValueOf(std::declval<decltype(record_detail::ValueOf(kMember))>()));

// A member that kRead(fields, name) gives as a Result and kWrite(value) makes JSON of. Without
// kWrite it is written as it is.
template <auto kMember, auto kRead, auto kWrite = nullptr,
          class M = record_detail::MemberForm<kMember, kRead, kWrite>>
constexpr Form<typename M::Record> As = {M::Write, M::Read, M::IsMemberSet};

template <auto kMember>
constexpr auto AsText = As<kMember, &JsonFields::String>;
template <auto kMember>
constexpr auto AsFlag = As<kMember, &JsonFields::Bool>;
template <auto kMember>
constexpr auto AsNumber = As<kMember, &JsonFields::Number>;

// Writes the fields of a record, after those that `out` has.
template <class Record, class Table>
void WriteFields(const Table& table, const Record& record, Json& out) {
  for (const auto& field : table) {
    if (field.IsWritten(record)) out[field.name] = field.form.write(record);
  }
}

template <class Record, class Table>
Json ToJson(const Table& table, const Record& record) {
  Json out = Json::object();
  WriteFields(table, record, out);
  return out;
}

template <class Record, class Table>
Status ReadFields(const Table& table, const JsonFields& fields, Record& record) {
  for (const auto& field : table) {
    if (field.presence != Presence::kRequired && !fields.Has(field.name)) continue;
    SHARD_CHECK(field.form.read(fields, field.name, record));
  }
  return Ok();
}

// Refuses what is not an object.
template <class Record, size_t kRows>
Result<Record> ReadRecord(const Field<Record> (&table)[kRows], const std::string& where,
                          const Json& value) {
  SHARD_CHECK(CheckObject(where, value));
  Record record;
  SHARD_CHECK(ReadFields(table, JsonFields(value, where), record));
  return record;
}

namespace record_detail {

template <class Record, const auto& kTable>
Result<Record> ReadNested(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* value, fields.Object(name));
  return ReadRecord(kTable, Cat(fields.where(), ": ", name), *value);
}

template <class Record, const auto& kTable>
Json WriteNested(const Record& record) {
  return ToJson(kTable, record);
}

template <class Record, size_t kRows>
Record RecordOfTable(const Field<Record> (&)[kRows]);

template <auto kMember, const auto& kForm>
struct OuterForm {
  using Record = decltype(RecordOf(kMember));

  static Json Write(const Record& record) { return kForm.write(record.*kMember); }
  static Status Read(const JsonFields& fields, const char* name, Record& record) {
    return kForm.read(fields, name, record.*kMember);
  }
  static bool IsMemberSet(const Record& record) { return kForm.is_set(record.*kMember); }
};

template <const auto& kTable>
struct InnerForm {
  using Record = decltype(RecordOfTable(kTable));

  static Json Write(const Record& record) { return ToJson(kTable, record); }
  static Status Read(const JsonFields& fields, const char* name, Record& record) {
    SHARD_TRY(const Json* value, fields.Object(name));
    return ReadFields(kTable, JsonFields(*value, Cat(fields.where(), ": ", name)), record);
  }
  static bool HasAny(const Record& record) {
    return std::any_of(std::begin(kTable), std::end(kTable), [&](const Field<Record>& field) {
      return field.form.is_set != nullptr && field.form.is_set(record);
    });
  }
};

}  // namespace record_detail

// A member that is a record of its own, with the table `kTable`.
template <auto kMember, const auto& kTable,
          class Inner = decltype(record_detail::RecordOfTable(kTable))>
constexpr auto AsRecord = As<kMember, record_detail::ReadNested<Inner, kTable>,
                             record_detail::WriteNested<Inner, kTable>>;

// What `kForm` says of a member.
template <auto kMember, const auto& kForm, class M = record_detail::OuterForm<kMember, kForm>>
constexpr Form<typename M::Record> InMember = {M::Write, M::Read, M::IsMemberSet};

// An object whose fields, those of `kTable`, are members of the record itself.
template <const auto& kTable, class M = record_detail::InnerForm<kTable>>
constexpr Form<typename M::Record> AsObject = {M::Write, M::Read, M::HasAny};

}  // namespace moepack
