#include "libshard/remote/http/range_answer.h"

#include "libshard/base/text/text.h"
#include "libshard/remote/http/libcurl.h"

namespace moepack::remote {
namespace {

bool IsPage(const HttpReply& head, const std::string& name) {
  return head.Field("content-type").starts_with("text/html") &&
         name.find(".html") == std::string::npos;
}

// The file was not changed in the second in which the answer was made (RFC 9110, 8.8.2.2).
bool IsSurelyPast(const std::string& modified, const std::string& date) {
  const time_t changed = Curl().getdate(modified.c_str(), nullptr);
  const time_t answered = Curl().getdate(date.c_str(), nullptr);
  return changed >= 0 && answered >= 0 && changed < answered;
}

}  // namespace

std::string Validator::Shown() const {
  if (!etag.empty()) return Cat("ETag ", moepack::Shown(etag));
  if (!modified.empty()) return Cat("Last-Modified ", moepack::Shown(modified));
  return "no validator";
}

Validator ValidatorOf(const HttpFields& fields) {
  Validator validator;
  const std::string_view etag = FieldOf(fields, "etag");
  if (etag.size() > 2 && etag.starts_with('"') && etag.ends_with('"')) validator.etag = etag;
  validator.modified = FieldOf(fields, "last-modified");
  validator.condition = validator.etag;
  const std::string date(FieldOf(fields, "date"));
  // If-Range must not have a date if there is any ETag, even a weak one.
  if (etag.empty() && IsSurelyPast(validator.modified, date))
    validator.condition = validator.modified;
  return validator;
}

std::optional<ContentRange> ParseContentRange(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  if (!text.starts_with(kUnit)) return std::nullopt;
  text.remove_prefix(kUnit.size());
  const size_t dash = text.find('-'), slash = text.find('/');
  if (dash == text.npos || slash == text.npos || dash > slash) return std::nullopt;
  const auto first = ParseUint(text.substr(0, dash));
  const auto last = ParseUint(text.substr(dash + 1, slash - dash - 1));
  const std::string_view size = text.substr(slash + 1);
  const auto total = ParseUint(size);
  if (!first || !last || *first > *last || *last == UINT64_MAX) return std::nullopt;
  if (total ? *last >= *total : size != "*") return std::nullopt;
  return ContentRange{*first, *last, total};
}

std::string ShownRange(uint64_t first, uint64_t bytes) {
  return Cat("bytes ", first, "-", first + bytes - 1);
}

Status CheckPlainBody(const std::string& name, const HttpReply& head) {
  const std::string_view encoding = head.Field("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return Error{Code::kIo,
                 Cat(name, ": Content-Encoding: expected none, found ", Quoted(encoding)),
                 "the server compresses although it was asked not to: use another one"};
  }
  const std::string_view type = head.Field("content-type");
  if (type.starts_with("multipart/")) {
    return Error{Code::kIo, Cat(name, ": Content-Type: expected one range, found ", Quoted(type)),
                 kServerIsBroken};
  }
  if (IsPage(head, name)) {
    return Error{Code::kIo, Cat(name, ": Content-Type: expected a file, found a web page"),
                 "check the address: login pages and previews are not files"};
  }
  return Ok();
}

Status CheckLength(const std::string& name, const HttpReply& head, uint64_t expected) {
  const std::string_view length = head.Field("content-length");
  if (length.empty() || ParseUint(length) == expected) return Ok();
  return Error{Code::kCorrupt,
               Cat(name, ": Content-Length: expected ", expected, ", found ", Quoted(length)),
               kServerIsBroken};
}

Error WrongRange(const std::string& name, const HttpReply& head, const std::string& expected) {
  const std::string_view found = head.Field("content-range");
  return {Code::kCorrupt,
          Cat(name, ": Content-Range: expected ", expected, ", found ",
              found.empty() ? std::string("none") : Quoted(found)),
          kServerIsBroken};
}

Error BodyTooLong(const std::string& name, uint64_t expected) {
  return {Code::kCorrupt, Cat(name, ": body: expected ", expected, " bytes, found more"),
          kServerIsBroken};
}

Error RangeIgnored(const std::string& name, const HttpReply& head, const char* hint) {
  const std::string_view length = head.Field("content-length");
  return {Code::kIo,
          Cat(name, ": expected status 206 with this range, found status 200 with ",
              length.empty() ? std::string("the whole file") : Cat("all ", Shown(length), " bytes"),
              ": the server ignores Range"),
          hint};
}

}  // namespace moepack::remote
