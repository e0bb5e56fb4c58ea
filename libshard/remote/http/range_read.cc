#include "libshard/remote/http/range_read.h"

#include <algorithm>
#include <cstring>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr const char* kNoRanges =
    "the server has to know ranges (nginx, rclone and S3 do); or download the file first";

Error Changed(const RemoteFile& file, const std::string& found) {
  return {Code::kCorrupt,
          Cat(file.name, ": the file was changed while it was read: expected ",
              file.validator.empty() ? Cat(file.size, " bytes") : file.validator.Shown(),
              ", found ", found),
          "run the command again once nobody writes the file"};
}

// A range of a known file.
class RangeSink final : public HttpSink {
 public:
  RangeSink(const RemoteFile& file, uint64_t offset, std::span<std::byte> out)
      : file_(file), offset_(offset), out_(out) {}

  uint64_t next() const { return offset_ + done_; }
  uint64_t left() const { return out_.size() - done_; }
  bool goes_on() const override { return true; }
  std::string Name() const { return Cat(file_.name, ": ", ShownRange(next(), left())); }

  Status Begin(const HttpReply& head) override {
    const std::string name = Name();
    const Validator found = ValidatorOf(head.fields);
    if (Differs(found)) return Changed(file_, found.Shown());
    SHARD_CHECK(CheckPlainBody(name, head));
    if (head.status != 206) return RangeIgnored(name, head, kNoRanges);
    const auto range = ParseContentRange(head.Field("content-range"));
    const std::string expected = Cat(ShownRange(next(), left()), "/", file_.size);
    if (!range || range->first != next() || range->last != next() + left() - 1)
      return WrongRange(name, head, expected);
    if (!range->total && file_.states_size) return WrongRange(name, head, expected);
    if (range->total.value_or(file_.size) != file_.size)
      return Changed(file_, Cat(*range->total, " bytes"));
    begun_at_ = done_;
    return CheckLength(name, head, left());
  }
  Status Take(std::span<const std::byte> bytes) override {
    if (bytes.size() > left()) return BodyTooLong(file_.name, out_.size() - begun_at_);
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

// An answer to a range request that is not a range.
Error RefusedRange(const RemoteFile& file, const std::string& name, const HttpReply& reply) {
  if (reply.status == 412) return Changed(file, "another file (status 412)");
  if (reply.status != 416) return StatusError(name, reply);
  const std::string_view range = reply.Field("content-range");
  constexpr std::string_view kUnsatisfied = "bytes */";
  const auto size =
      range.starts_with(kUnsatisfied) ? ParseUint(range.substr(kUnsatisfied.size())) : std::nullopt;
  if (size && *size != file.size) return Changed(file, Cat(*size, " bytes"));
  return {Code::kCorrupt,
          Cat(name, ": expected this range of ", file.size, " bytes, found status 416"),
          kServerIsBroken};
}

// An address renewed by another thread may have expired again before this one uses it.
constexpr int kMostRenewals = 2;

}  // namespace

bool IsRefused(int status) { return status == 401 || status == 403; }

bool IsOther(const HttpRequest& located, const HttpRequest& refused) {
  return located.url.Text() != refused.url.Text() || located.authorization != refused.authorization;
}

HttpRequest WithRange(HttpRequest located, std::string name, uint64_t first, uint64_t bytes) {
  located.name = std::move(name);
  located.headers.push_back(Cat("Range: bytes=", first, "-", first + bytes - 1));
  return located;
}

Status ReadRange(HttpClient& client, const RemoteFile& file, const Locate& locate, uint64_t offset,
                 std::span<std::byte> out) {
  RangeSink sink(file, offset, out);
  int renewals = 0;
  SHARD_TRY(HttpRequest located, locate(nullptr));
  for (int tried = 1; tried <= client.settings().retry.tries; ++tried) {
    const auto next = [&] {
      HttpRequest request = WithRange(located, sink.Name(), sink.next(), sink.left());
      if (!file.validator.condition.empty())
        request.headers.push_back(Cat("If-Range: ", file.validator.condition));
      return request;
    };
    SHARD_TRY(const HttpReply reply, client.Perform(next, sink));
    if (IsRefused(reply.status) && renewals < kMostRenewals) {
      ++renewals;
      SHARD_TRY(HttpRequest again, locate(&located.url));
      const bool other = IsOther(again, located);
      located = std::move(again);
      if (other) continue;
    }
    if (reply.status >= 300) return RefusedRange(file, sink.Name(), reply);
    if (sink.left() == 0) return Ok();
  }
  return EndsEarly(file.name, offset, out.size(), out.size() - sink.left());
}

}  // namespace moepack::remote
