#include "libshard/remote/first_range.h"

#include <algorithm>
#include <optional>

#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr const char* kKnowNoRanges =
    "the server has to know ranges (nginx, rclone and S3 do): download the file first, or read it "
    "whole into memory with --allow-full-download, up to 1 GiB";
constexpr const char* kNoRoomForWhole =
    "download the file first, or use a server that knows ranges (nginx, rclone and S3 do)";

class FirstSink final : public HttpSink {
 public:
  FirstSink(HttpClient& client, const std::string& name, uint64_t wanted)
      : client_(client), name_(name), wanted_(wanted) {}

  // How many of its bytes the next try does not have to bring: those of a broken transfer of a
  // version that can be told from others.
  uint64_t have() const {
    const bool resumes = ranged_ && !out_.file.validator.condition.empty() && !complete();
    return resumes ? out_.head.size() : 0;
  }
  const std::string& condition() const { return out_.file.validator.condition; }
  bool goes_on() const override { return have() > 0; }

  Status Begin(const HttpReply& head) override {
    if (have() > 0 && head.status == 206) return Resume(head);
    out_ = {};
    out_.file = {name_, 0, ValidatorOf(head.fields)};
    expected_.reset();
    ranged_ = false;
    SHARD_CHECK(CheckPlainBody(name_, head));
    const bool may_allow = client_.settings().may_allow_whole_files;
    ignored_ = RangeIgnored(name_, head, may_allow ? kKnowNoRanges : kNoRoomForWhole);
    return head.status == 200 ? BeginWhole(head) : BeginRange(head);
  }
  Status Take(std::span<const std::byte> bytes) override {
    const uint64_t size = out_.head.size() + bytes.size();
    if (expected_ && size > *expected_) return BodyTooLong(name_, *expected_);
    if (!expected_) {
      SHARD_CHECK(CheckRoom(size));
    }
    out_.head.insert(out_.head.end(), bytes.begin(), bytes.end());
    return Ok();
  }

  bool complete() const { return !expected_ || out_.head.size() == *expected_; }
  // REQUIRES: complete().
  FirstRange Take() && {
    if (out_.whole) out_.file.size = out_.head.size();
    return std::move(out_);
  }

 private:
  // The server has compared the validator (If-Range).
  Status Resume(const HttpReply& head) {
    SHARD_CHECK(CheckPlainBody(name_, head));
    const auto range = ParseContentRange(head.Field("content-range"));
    const uint64_t left = *expected_ - have();
    const bool right = range && range->first == have() && range->last + 1 == *expected_ &&
                       range->total.value_or(out_.file.size) == out_.file.size;
    if (!right) return WrongRange(name_, head, ShownRange(have(), left));
    return CheckLength(name_, head, left);
  }
  Status BeginRange(const HttpReply& head) {
    const auto range = ParseContentRange(head.Field("content-range"));
    const uint64_t total = range ? range->total.value_or(wanted_) : 0;
    const bool stated = range && range->total;
    const bool right = range && range->first == 0 && range->last < wanted_ &&
                       (!stated || range->last + 1 == std::min(wanted_, total));
    if (!right) return WrongRange(name_, head, Cat("the first of ", wanted_, " bytes"));
    out_.file.states_size = stated;
    out_.file.size = total;
    expected_ = range->last + 1;
    ranged_ = true;
    return CheckLength(name_, head, *expected_);
  }
  // A body without a length counts only if its end is marked: otherwise nobody knows whether it is
  // complete.
  Status BeginWhole(const HttpReply& head) {
    out_.whole = true;
    const auto length = ParseUint(head.Field("content-length"));
    if (!length && !head.end_is_marked) return *ignored_;
    if (!length) return Ok();
    SHARD_CHECK(CheckRoom(*length));
    expected_ = *length;
    return Ok();
  }
  // There is always room for a short file.
  Status CheckRoom(uint64_t size) {
    if (size <= std::max(wanted_, held_)) return Ok();
    const uint64_t most = client_.settings().whole_files;
    if (most == 0) return *ignored_;
    if (client_.HoldWhole(size - held_)) {
      held_ = size;
      return Ok();
    }
    return Error{Code::kIo,
                 Cat(name_, ": expected at most ", most,
                     " bytes of files that are read whole (--allow-full-download), found ", size,
                     " in this one"),
                 kNoRoomForWhole};
  }

  HttpClient& client_;
  const std::string& name_;
  uint64_t wanted_, held_ = 0;  // `held_`: memory that the client counts for it
  std::optional<uint64_t> expected_;
  bool ranged_ = false;  // the answer is a range, so that others can follow
  std::optional<Error> ignored_;
  FirstRange out_;
};

// For the rare server whose ranges have no total. HEAD is used only then: in all other cases GET
// says the same and saves a request, and addresses that are signed for GET refuse HEAD.
Result<uint64_t> SizeByHead(HttpClient& client, HttpRequest request, const std::string& name) {
  request.method = "HEAD";
  request.name = name;
  SHARD_TRY(const HttpReply reply, client.Fetch(request, 0));
  const auto size = ParseUint(reply.Field("content-length"));
  if (reply.status == 200 && size) return *size;
  return Error{Code::kIo,
               Cat(name,
                   ": size: expected it in Content-Range, or as Content-Length of HEAD, "
                   "found none (HEAD: status ",
                   reply.status, ")"),
               "the server has to say how long its files are: use another, or download the file "
               "first"};
}

Result<FirstRange> WithSize(HttpClient& client, const HttpRequest& located, FirstRange first,
                            uint64_t wanted) {
  if (first.whole || first.file.states_size) return first;
  const std::string& name = first.file.name;
  SHARD_TRY(first.file.size, SizeByHead(client, located, name));
  const uint64_t expected = std::min(first.file.size, wanted);
  if (first.head.size() == expected) return first;
  return Error{Code::kCorrupt,
               Cat(name, ": Content-Range: expected ", expected, " bytes of ", first.file.size,
                   " as HEAD has it, found ", first.head.size()),
               kServerIsBroken};
}

}  // namespace

Result<FirstRange> ReadFirstRange(HttpClient& client, const std::string& name, const Locate& locate,
                                  uint64_t wanted) {
  FirstSink sink(client, name, wanted);
  SHARD_TRY(HttpRequest located, locate(nullptr));
  bool renewed = false;
  for (int tried = 1; tried <= client.settings().retry.tries; ++tried) {
    const auto next = [&] {
      const uint64_t have = sink.have();
      HttpRequest request = WithRange(located, name, have, wanted - have);
      if (have > 0) request.headers.push_back(Cat("If-Range: ", sink.condition()));
      return request;
    };
    SHARD_TRY(const HttpReply reply, client.Perform(next, sink));
    if (IsRefused(reply.status) && !renewed) {
      renewed = true;
      SHARD_TRY(HttpRequest again, locate(&located.url));
      const bool other = IsOther(again, located);
      located = std::move(again);
      if (other) continue;
    }
    const bool empty = reply.status == 416 && reply.Field("content-range") == "bytes */0";
    if (empty) return FirstRange{{name, 0, ValidatorOf(reply.fields)}, {}};
    if (reply.status == 416) {
      return Error{Code::kCorrupt,
                   Cat(name, ": expected the first of ", wanted, " bytes, found status 416"),
                   kServerIsBroken};
    }
    if (reply.status >= 300) return StatusError(name, reply);
    if (sink.complete()) return WithSize(client, located, std::move(sink).Take(), wanted);
    SHARD_TRY(located, locate(nullptr));
  }
  return EndsEarly(name, 0, wanted, 0);
}

}  // namespace moepack::remote
