#include "libshard/base/text/json.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/text/json_stream.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"

namespace moepack {
namespace {

constexpr size_t kMaxDepth = 32;
constexpr size_t kMaxParserMessage = 240;

// The keys of one object seen so far, as 128-bit hashes. A duplicate is always found. Two different
// keys that collide, which takes intent, only cause the rejection of a document that nobody wrote
// in good faith. Most objects are small, so it starts as a list and grows into a table with open
// addressing.
class KeySet {
 public:
  void Clear() {
    count_ = 0;
    if (table_.room() > 0) table_ = ProbeTable<KeyHash>(kFree);
  }
  // Returns false if `key` was there already.
  bool Add(const std::string& key) {
    const KeyHash hash = HashOfKey(key);
    if (count_ < few_.size()) {
      const auto end = few_.begin() + static_cast<std::ptrdiff_t>(count_);
      if (std::find(few_.begin(), end, hash) != end) return false;
      few_[count_++] = hash;
      return true;
    }
    if (count_ + 1 > table_.room()) Grow();
    if (!Insert(hash)) return false;
    ++count_;
    return true;
  }

 private:
  static constexpr KeyHash kFree = {0, 0};

  static KeyHash HashOfKey(const std::string& key) {
    KeyHash hash = HashOf(key);
    hash.rest |= 1;  // never kFree
    return hash;
  }
  bool Insert(const KeyHash& hash) {
    KeyHash& slot = table_.Slot(hash, [&](const KeyHash& other) { return other == hash; });
    if (!table_.IsFree(slot)) return false;
    slot = hash;
    return true;
  }
  void Grow() {
    const ProbeTable<KeyHash> old = std::exchange(
        table_, ProbeTable<KeyHash>(kFree, std::max(2 * few_.size(), 4 * table_.room())));
    const auto take = [&](const KeyHash& hash) {
      if (!table_.IsFree(hash)) Insert(hash);
    };
    std::for_each(few_.begin(), few_.end(), take);
    std::for_each(old.slots().begin(), old.slots().end(), take);
  }

  std::array<KeyHash, 16> few_ = {};
  ProbeTable<KeyHash> table_ = ProbeTable<KeyHash>(kFree);
  size_t count_ = 0;
};

// Between nlohmann's parser and JsonEvents: adds the rules that the parser does not have.
class StrictGate {
 public:
  StrictGate(const std::string& where, JsonEvents& events) : where_(where), events_(events) {}

  std::optional<Error>& failure() { return failure_; }

  bool null() { return Take(events_.Null()); }
  bool boolean(bool value) { return Take(events_.Bool(value)); }
  bool number_integer(int64_t number) { return Take(events_.Negative(number)); }
  bool number_unsigned(uint64_t number) { return Take(events_.Unsigned(number)); }
  bool number_float(double number, const std::string& text) {
    // The parser turns integers beyond 64 bits into floating point, which would silently lose
    // digits.
    if (text.find_first_of(".eE") == std::string::npos) {
      return Refuse(Cat("expected an integer of at most 64 bits, found ", text.substr(0, 40)));
    }
    return Take(events_.Float(number));
  }
  bool string(std::string& text) { return Take(events_.String(text)); }
  bool binary(std::vector<uint8_t>&) { return Refuse("expected JSON text, found binary data"); }

  bool start_object(size_t) {
    if (!Enter()) return false;
    if (keys_.size() < depth_) keys_.resize(depth_);
    keys_[depth_ - 1].Clear();
    return Take(events_.StartObject());
  }
  bool key(std::string& key) {
    if (!keys_[depth_ - 1].Add(key)) return Refuse(Cat("duplicate key ", Quoted(key)));
    return Take(events_.Key(key));
  }
  bool end_object() {
    --depth_;
    return Take(events_.EndObject());
  }
  bool start_array(size_t) { return Enter() && Take(events_.StartArray()); }
  bool end_array() {
    --depth_;
    return Take(events_.EndArray());
  }

  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception& problem) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without the bracket.
    std::string text = problem.what();
    if (const size_t end = text.find("] "); end != std::string::npos) text.erase(0, end + 2);
    // The message shows the text where the parser stopped, with all control characters escaped
    // except this one.
    std::replace(text.begin(), text.end(), '\x7f', '?');
    return Refuse(text.substr(0, kMaxParserMessage));
  }

 private:
  bool Enter() {
    if (++depth_ <= kMaxDepth) return true;
    return Refuse(Cat("nesting: expected at most ", kMaxDepth, " levels, found more"));
  }
  bool Refuse(const std::string& reason) {
    if (!failure_) failure_ = Error{Code::kCorrupt, Cat(where_, ": JSON: ", reason)};
    return false;
  }
  bool Take(Status status) {
    if (status) return true;
    if (!failure_) failure_ = std::move(status).error();
    return false;
  }

  const std::string& where_;
  JsonEvents& events_;
  std::vector<KeySet> keys_;
  size_t depth_ = 0;
  std::optional<Error> failure_;
};

// A text in pieces as the parser reads it, one character after the other. Names an empty text as
// such, and rejects what the parser silently skips: it takes a NUL as the end of the text, whatever
// follows, and ignores a byte order mark.
class PieceFeed {
 public:
  PieceFeed(const std::string& where, const NextPiece& next) : where_(where), next_(next) {}

  std::optional<Error>& failure() { return failure_; }
  bool AtEnd() { return at_ == end_ && !Fill(); }
  char Front() const { return *at_; }
  void Advance() { ++at_; }

 private:
  bool Fill() {
    if (ended_) return false;
    Result<std::string_view> next = next_();
    const std::string_view piece = next ? *next : std::string_view();
    if (!next) failure_ = std::move(next).error();
    if (next) Check(piece);
    ended_ = failure_ || piece.empty();
    at_ = piece.data();
    end_ = ended_ ? at_ : at_ + piece.size();
    before_ += piece.size();
    return !ended_;
  }
  void Check(std::string_view piece) {
    const auto refuse = [&](const std::string& reason, const char* hint) {
      failure_ = Error{Code::kCorrupt, Cat(where_, ": JSON: ", reason), hint};
    };
    blank_ = blank_ && IsBlank(piece);
    if (piece.empty() && blank_) return refuse("expected a document, found an empty text", "");
    if (const size_t at = piece.find('\0'); at != std::string_view::npos)
      return refuse(Cat("byte ", before_ + at, ": expected text, found a NUL byte"), "");
    if (before_ == 0 && piece.starts_with("\xef\xbb\xbf"))
      refuse("expected a document, found a byte order mark",
             "save the file as UTF-8 without a byte order mark");
  }

  const std::string& where_;
  const NextPiece& next_;
  const char *at_ = nullptr, *end_ = nullptr;
  uint64_t before_ = 0;  // bytes of the pieces up to this one
  bool blank_ = true, ended_ = false;
  std::optional<Error> failure_;
};

// What the parser takes for a text; one without a feed is its end.
struct PieceIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  char operator*() const { return feed->Front(); }
  PieceIterator& operator++() {
    feed->Advance();
    return *this;
  }
  PieceIterator operator++(int) {
    feed->Advance();
    return *this;
  }
  bool operator==(const PieceIterator& other) const {
    PieceFeed* const text = feed ? feed : other.feed;
    return feed == other.feed || text->AtEnd();
  }

  PieceFeed* feed = nullptr;
};

std::string DumpScalar(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

bool AllScalars(const Json& array) {
  return std::none_of(array.begin(), array.end(), [](const Json& v) { return v.is_structured(); });
}

void WriteValue(const Json& value, size_t indent, std::string& out) {
  if (!value.is_structured()) {
    out += DumpScalar(value);
    return;
  }
  const char* brackets = value.is_object() ? "{}" : "[]";
  const bool one_line = value.empty() || (value.is_array() && AllScalars(value));
  const std::string line = one_line ? "" : "\n" + std::string(indent + 2, ' ');
  out += brackets[0];
  bool first = true;
  for (const auto& item : value.items()) {
    if (!first) out += one_line ? ", " : ",";
    first = false;
    out += line;
    if (value.is_object()) out += DumpScalar(Json(item.key())) + ": ";
    WriteValue(item.value(), indent + 2, out);
  }
  if (!one_line) out += "\n" + std::string(indent, ' ');
  out += brackets[1];
}

}  // namespace

Status StreamJson(const std::string& where, const NextPiece& next, JsonEvents& events) {
  StrictGate gate(where, events);
  PieceFeed feed(where, next);
  const bool parsed = Json::sax_parse(PieceIterator{&feed}, PieceIterator{}, &gate);
  if (feed.failure()) return *std::move(feed.failure());
  if (gate.failure()) return *std::move(gate.failure());
  if (!parsed) return Error{Code::kCorrupt, Cat(where, ": JSON: expected a document, found none")};
  return Ok();
}

Status StreamJson(const std::string& where, std::string_view text, JsonEvents& events) {
  const NextPiece whole = [&] { return std::exchange(text, std::string_view()); };
  return StreamJson(where, whole, events);
}

Result<Json> ParseJson(const std::string& where, std::string_view text) {
  JsonBuilder builder;
  SHARD_CHECK(StreamJson(where, text, builder));
  return builder.Take();
}

Result<Json> ReadJsonFile(const std::string& path, uint64_t limit) {
  SHARD_TRY(const std::string text, ReadTextFile(path, limit));
  return ParseJson(path, text);
}

std::string TextMember(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::string WriteJson(const Json& document) {
  std::string out;
  WriteValue(document, 0, out);
  out += "\n";
  return out;
}

std::string WriteJsonValue(const Json& value, size_t indent) {
  std::string out;
  WriteValue(value, indent, out);
  return out;
}

std::string DescribeJson(const Json& value) {
  if (value.is_object()) return Cat("an object of ", Plural(value.size(), "key"));
  if (value.is_array()) return Cat("an array of ", Plural(value.size(), "value"));
  if (value.is_string()) return Quoted(value.get_ref<const std::string&>());
  return DumpScalar(value);
}

bool JsonFields::Has(const char* key) const {
  const auto found = object_.find(key);
  return found != object_.end() && !found->is_null();
}

Error JsonFields::Wrong(const char* key, const char* expected) const {
  const auto found = object_.find(key);
  const std::string value = found == object_.end() ? "nothing" : DescribeJson(*found);
  return Error{Code::kCorrupt, Cat(where_, ": ", key, ": expected ", expected, ", found ", value)};
}

Result<std::string> JsonFields::String(const char* key) const {
  if (!Has(key) || !object_.at(key).is_string()) return Wrong(key, "a string");
  return object_.at(key).get<std::string>();
}

Result<uint64_t> JsonFields::Unsigned(const char* key) const {
  if (!Has(key) || !object_.at(key).is_number_unsigned()) return Wrong(key, "a whole number");
  return object_.at(key).get<uint64_t>();
}

Result<double> JsonFields::Number(const char* key) const {
  if (!Has(key) || !object_.at(key).is_number()) return Wrong(key, "a number");
  return object_.at(key).get<double>();
}

Result<bool> JsonFields::Bool(const char* key) const {
  if (!Has(key) || !object_.at(key).is_boolean()) return Wrong(key, "true or false");
  return object_.at(key).get<bool>();
}

Result<std::string> JsonFields::StringOr(const char* key, std::string fallback) const {
  if (!Has(key)) return fallback;
  return String(key);
}

Result<uint64_t> JsonFields::UnsignedOr(const char* key, uint64_t fallback) const {
  if (!Has(key)) return fallback;
  return Unsigned(key);
}

Result<bool> JsonFields::BoolOr(const char* key, bool fallback) const {
  if (!Has(key)) return fallback;
  return Bool(key);
}

Result<const Json*> JsonFields::Object(const char* key) const {
  if (!Has(key) || !object_.at(key).is_object()) return Wrong(key, "an object");
  return &object_.at(key);
}

Result<const Json*> JsonFields::Array(const char* key) const {
  if (!Has(key) || !object_.at(key).is_array()) return Wrong(key, "an array");
  return &object_.at(key);
}

}  // namespace moepack
