#include "libshard/remote/range_read.h"

#include <algorithm>
#include <cstring>

#include "libshard/base/text.h"

namespace moepack::remote {
namespace {

constexpr const char* kNoRanges =
    "the server has to know ranges (nginx, rclone and S3 do); or download the file first";
constexpr const char* kDamaged = "the server or a proxy in between is broken: use another";

std::string ShownRange(uint64_t first, uint64_t bytes) {
  return Cat("bytes ", first, "-", first + bytes - 1);
}

Error Changed(const RemoteFile& file, const std::string& found) {
  return {Code::kCorrupt,
          Cat(file.name, ": the file was changed while it was read: expected ",
              file.validator.empty() ? Cat(file.size, " bytes") : file.validator.Shown(),
              ", found ", found),
          "run the command again once nobody writes the file"};
}

Error RangeIgnored(const std::string& name, const HttpReply& head) {
  const std::string_view length = head.Field("content-length");
  return {Code::kIo,
          Cat(name, ": expected status 206 with this range, found status 200 with ",
              length.empty() ? std::string("the whole file") : Cat("all ", Shown(length), " bytes"),
              ": the server ignores Range"),
          kNoRanges};
}

bool IsPage(const HttpReply& head, const std::string& name) {
  return head.Field("content-type").starts_with("text/html") &&
         name.find(".html") == std::string::npos;
}

// What holds for every answer with a body of a file.
Status CheckPlainBody(const std::string& name, const HttpReply& head) {
  const std::string_view encoding = head.Field("content-encoding");
  if (!encoding.empty() && encoding != "identity") {
    return Error{Code::kIo,
                 Cat(name, ": Content-Encoding: expected none, found ", Quoted(encoding)),
                 "the server compresses although it was asked not to: use another"};
  }
  const std::string_view type = head.Field("content-type");
  if (type.starts_with("multipart/")) {
    return Error{Code::kIo, Cat(name, ": Content-Type: expected one range, found ", Quoted(type)),
                 kDamaged};
  }
  if (IsPage(head, name)) {
    return Error{Code::kIo, Cat(name, ": Content-Type: expected a file, found a web page"),
                 "check the address: log-in pages and previews are no files"};
  }
  return Ok();
}

// Content-Length, where there is one, is that of the range.
Status CheckLength(const std::string& name, const HttpReply& head, uint64_t expected) {
  const std::string_view length = head.Field("content-length");
  if (length.empty() || ParseUint(length) == expected) return Ok();
  return Error{Code::kCorrupt,
               Cat(name, ": Content-Length: expected ", expected, ", found ", Quoted(length)),
               kDamaged};
}

Error WrongRange(const std::string& name, const HttpReply& head, const std::string& expected) {
  const std::string_view found = head.Field("content-range");
  return {Code::kCorrupt,
          Cat(name, ": Content-Range: expected ", expected, ", found ",
              found.empty() ? std::string("none") : Quoted(found)),
          kDamaged};
}

Error TooLong(const std::string& name, uint64_t expected) {
  return {Code::kCorrupt, Cat(name, ": body: expected ", expected, " bytes, found more"), kDamaged};
}

// The first answer: its size says how long the file is.
class FirstSink final : public HttpSink {
 public:
  FirstSink(const std::string& name, uint64_t wanted) : name_(name), wanted_(wanted) {}

  Status Begin(const HttpReply& head) override {
    out_ = {};
    out_.file = {name_, 0, ValidatorOf(head.fields)};
    SHARD_CHECK(CheckPlainBody(name_, head));
    const bool whole = head.status == 200;
    const auto range = ParseContentRange(head.Field("content-range"));
    const auto length = ParseUint(head.Field("content-length"));
    if (whole && length > wanted_) return RangeIgnored(name_, head);
    if (whole && !length) return RangeIgnored(name_, head);
    const bool right =
        range && range->first == 0 && range->last + 1 == std::min(wanted_, range->total);
    if (!whole && !right) return WrongRange(name_, head, Cat("the first of ", wanted_, " bytes"));
    out_.file.size = whole ? *length : range->total;
    expected_ = whole ? *length : range->last + 1;
    return CheckLength(name_, head, expected_);
  }
  Status Take(std::span<const std::byte> bytes) override {
    if (out_.head.size() + bytes.size() > expected_) return TooLong(name_, expected_);
    out_.head.insert(out_.head.end(), bytes.begin(), bytes.end());
    return Ok();
  }
  bool complete() const { return out_.head.size() == expected_; }
  FirstRange Take() && { return std::move(out_); }

 private:
  const std::string& name_;
  uint64_t wanted_, expected_ = 0;
  FirstRange out_;
};

// A range of a file that is known.
class RangeSink final : public HttpSink {
 public:
  RangeSink(const RemoteFile& file, uint64_t offset, std::span<std::byte> out)
      : file_(file), offset_(offset), out_(out) {}

  uint64_t next() const { return offset_ + done_; }
  uint64_t left() const { return out_.size() - done_; }
  std::string Name() const { return Cat(file_.name, ": ", ShownRange(next(), left())); }

  Status Begin(const HttpReply& head) override {
    const std::string name = Name();
    const Validator found = ValidatorOf(head.fields);
    if (Differs(found)) return Changed(file_, found.Shown());
    SHARD_CHECK(CheckPlainBody(name, head));
    if (head.status != 206) return RangeIgnored(name, head);
    const auto range = ParseContentRange(head.Field("content-range"));
    const std::string expected = Cat(ShownRange(next(), left()), "/", file_.size);
    if (!range || range->first != next() || range->last != next() + left() - 1)
      return WrongRange(name, head, expected);
    if (range->total != file_.size) return Changed(file_, Cat(range->total, " bytes"));
    begun_at_ = done_;
    return CheckLength(name, head, left());
  }
  Status Take(std::span<const std::byte> bytes) override {
    if (bytes.size() > left()) return TooLong(file_.name, out_.size() - begun_at_);
    std::memcpy(out_.data() + done_, bytes.data(), bytes.size());
    done_ += bytes.size();
    return Ok();
  }

 private:
  bool Differs(const Validator& found) const {
    const Validator& known = file_.validator;
    if (!known.etag.empty() && !found.etag.empty()) return known.etag != found.etag;
    return known.etag.empty() && !known.modified.empty() && !found.modified.empty() &&
           known.modified != found.modified;
  }

  const RemoteFile& file_;
  uint64_t offset_, done_ = 0, begun_at_ = 0;
  std::span<std::byte> out_;
};

bool IsRefused(int status) { return status == 401 || status == 403; }

// An answer to a range that is no range.
Error RefusedRange(const RemoteFile& file, const std::string& name, const HttpReply& reply) {
  if (reply.status == 412) return Changed(file, "another file (status 412)");
  if (reply.status != 416) return StatusError(name, reply);
  const std::string_view range = reply.Field("content-range");
  constexpr std::string_view kUnsatisfied = "bytes */";
  const auto size =
      range.starts_with(kUnsatisfied) ? ParseUint(range.substr(kUnsatisfied.size())) : std::nullopt;
  if (size && *size != file.size) return Changed(file, Cat(*size, " bytes"));
  return {Code::kCorrupt,
          Cat(name, ": expected this range of ", file.size, " bytes, found status 416"), kDamaged};
}

// The request of `located` for a range.
HttpRequest WithRange(HttpRequest located, std::string name, uint64_t first, uint64_t bytes) {
  located.name = std::move(name);
  located.headers.push_back(Cat("Range: bytes=", first, "-", first + bytes - 1));
  return located;
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
  const auto total = ParseUint(text.substr(slash + 1));
  if (!first || !last || !total || *first > *last || *last >= *total) return std::nullopt;
  return ContentRange{*first, *last, *total};
}

Result<FirstRange> ReadFirstRange(HttpClient& client, const std::string& name, const Locate& locate,
                                  uint64_t wanted) {
  FirstSink sink(name, wanted);
  for (int tried = 1; tried <= client.settings().retry.tries; ++tried) {
    SHARD_TRY(const HttpRequest located, locate(false));
    const HttpRequest request = WithRange(located, name, 0, wanted);
    SHARD_TRY(const HttpReply reply, client.Perform([&] { return request; }, sink));
    const bool empty = reply.status == 416 && reply.Field("content-range") == "bytes */0";
    if (empty) return FirstRange{{name, 0, ValidatorOf(reply.fields)}, {}};
    if (reply.status >= 300) return StatusError(name, reply);
    if (sink.complete()) return std::move(sink).Take();
  }
  return EndsEarly(name, 0, wanted, 0);
}

Status ReadRange(HttpClient& client, const RemoteFile& file, const Locate& locate, uint64_t offset,
                 std::span<std::byte> out) {
  RangeSink sink(file, offset, out);
  bool renewed = false;
  SHARD_TRY(HttpRequest located, locate(false));
  for (int tried = 1; tried <= client.settings().retry.tries; ++tried) {
    const auto next = [&] {
      HttpRequest request = WithRange(located, sink.Name(), sink.next(), sink.left());
      if (!file.validator.etag.empty())
        request.headers.push_back(Cat("If-Range: ", file.validator.etag));
      return request;
    };
    SHARD_TRY(const HttpReply reply, client.Perform(next, sink));
    if (IsRefused(reply.status) && !renewed) {
      renewed = true;
      if (Result<HttpRequest> again = locate(true)) {
        located = *std::move(again);
        continue;
      }
    }
    if (reply.status >= 300) return RefusedRange(file, sink.Name(), reply);
    if (sink.left() == 0) return Ok();
  }
  return EndsEarly(file.name, offset, out.size(), out.size() - sink.left());
}

}  // namespace moepack::remote
