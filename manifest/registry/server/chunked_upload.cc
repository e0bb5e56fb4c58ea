#include "manifest/registry/server/chunked_upload.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

using remote::HttpReply;
using remote::HttpRequest;
using What = SendEnd::What;

// A proxy that accepts no more than this at once is not usable for publishing.
constexpr uint64_t kLeastChunk = 64u << 10;

bool IsTaken(int status) { return status >= 200 && status <= 204; }

}  // namespace

std::optional<uint64_t> RangeEnd(std::string_view range) {
  constexpr std::string_view kUnit = "bytes=";
  if (range.starts_with(kUnit)) range.remove_prefix(kUnit.size());
  const size_t dash = range.find('-');
  if (dash == range.npos || range.substr(0, dash) != "0") return std::nullopt;
  return ParseUint(range.substr(dash + 1));
}

std::optional<uint64_t> NextOffset(uint64_t begin, uint64_t end, std::string_view range,
                                   bool range_stays) {
  const auto last = RangeEnd(range);
  if (!last || range_stays) return end;
  if (*last + 1 == end || *last == end) return end;  // as specified, or off by one
  if (*last + 1 > begin && *last < end) return *last + 1;
  return std::nullopt;
}

HttpRequest ChunkedUpload::Request(const char* method) const {
  HttpRequest request;
  request.method = method;
  request.url = session_.url;
  request.name = UploadName(client_, body_.blob());
  request.expected = "it to be accepted";
  return request;
}

ChunkedUpload::Step ChunkedUpload::Fail(What what, Error error, HttpReply reply) {
  end_ = SendFailed(what, std::move(error), std::move(reply));
  return Step::kEnd;
}

ChunkedUpload::Step ChunkedUpload::Failed(const RegistryClient::Asked& asked, What what) {
  const std::string name = UploadName(client_, body_.blob());
  if (asked.attempt.error) return Fail(what, *asked.attempt.error);
  return Fail(what, client_.Refusal(name, asked.attempt.reply, client_.PushScopes()),
              asked.attempt.reply);
}

// The answer's Location is where the next request goes; without one, the last stays.
void ChunkedUpload::TakeLocation(const HttpReply& reply) {
  if (reply.Field("location").empty()) return;
  Result<remote::Url> url = client_.LocationOf(reply, UploadName(client_, body_.blob()));
  if (url) session_.url = *std::move(url);
}

void ChunkedUpload::Note() {
  const Status noted = journal_.Note(body_.blob().digest, {session_.url.Text(), offset_});
  if (!noted) client_.http().settings().warn(noted.error().message);
}

bool ChunkedUpload::Resume() {
  const auto entry = journal_.Find(body_.blob().digest);
  if (!entry || entry->offset > body_.size()) return false;
  const Result<remote::Url> url = remote::ParseUrl(entry->location);
  if (!url || !url->SameOrigin(client_.repository().origin)) return false;
  session_ = {*url, 0};
  offset_ = entry->offset;
  if (AskWhere() == Step::kGoOn) {
    accepted_ = resumed_ = true;
    return true;
  }
  journal_.Forget(body_.blob().digest);
  return false;
}

void ChunkedUpload::Begin(UploadSession session) {
  session_ = std::move(session);
  rule_.bytes = std::max(rule_.bytes, session_.least_chunk);
  offset_ = 0;
  failures_ = {};
  accepted_ = resumed_ = false;
}

// "0-0" means one byte or none; assuming none costs nothing. One byte more than is known is an end
// that is off by one.
ChunkedUpload::Step ChunkedUpload::AskWhere(bool again) {
  const RegistryClient::Asked asked = client_.AskOnce(Request("GET"), client_.PushScopes());
  if (asked.renewed && !again) return AskWhere(true);
  const HttpReply& reply = asked.attempt.reply;
  const bool says = !asked.attempt.error && (reply.status == 204 || reply.status == 416);
  if (!says) return Failed(asked, What::kAgain);
  TakeLocation(reply);
  const auto last = RangeEnd(reply.Field("range"));
  if (!last || rule_.range_stays || *last == offset_) return Step::kGoOn;
  const uint64_t there = *last > 0 ? *last + 1 : 0;
  if (there > body_.size()) return Failed(asked, What::kAgain);
  offset_ = there;
  return Step::kGoOn;
}

// REQUIRES: the chunk was not taken.
ChunkedUpload::Step ChunkedUpload::Refuse(const RegistryClient::Asked& asked) {
  const HttpReply& reply = asked.attempt.reply;
  if (asked.renewed) return Step::kAsk;
  if (asked.attempt.error)
    return asked.attempt.transient ? Step::kAsk : Failed(asked, What::kFailed);
  const uint64_t half = rule_.bytes / 2;
  if (reply.status == 413 && half >= std::max(kLeastChunk, session_.least_chunk)) {
    rule_.bytes = half;
    return Step::kGoOn;  // a proxy refused it: the registry knows nothing about it
  }
  if (reply.status == 416 && RangeEnd(reply.Field("range")) && accepted_) return Step::kAsk;
  const bool unknown =
      reply.status == 404 || reply.status == 405 || reply.status == 416 || reply.status == 501;
  if (unknown) return Failed(asked, accepted_ ? What::kAgain : What::kOtherMode);
  return remote::IsTransient(reply.status) ? Step::kAsk : Failed(asked, What::kFailed);
}

ChunkedUpload::Step ChunkedUpload::TakeAnswer(const RegistryClient::Asked& asked, uint64_t end) {
  const HttpReply& reply = asked.attempt.reply;
  if (asked.attempt.error || !IsTaken(reply.status)) return Refuse(asked);
  TakeLocation(reply);
  const bool stays = rule_.range_stays || (reply.status == 201 && accepted_);
  const auto next = NextOffset(offset_, end, reply.Field("range"), stays);
  if (!next) {
    return Fail(What::kAgain, {Code::kIo,
                               Cat(UploadName(client_, body_.blob()), ": Range: expected 0-",
                                   end - 1, ", found ", Quoted(reply.Field("range"))),
                               "the registry lost a part of the upload"});
  }
  offset_ = *next;
  accepted_ = true;
  failures_ = {};
  patience_.Note(remote::Patience::Clock::now());
  Note();
  return Step::kGoOn;
}

ChunkedUpload::Step ChunkedUpload::SendChunk() {
  const uint64_t end = offset_ + std::min(rule_.bytes, body_.size() - offset_);
  HttpRequest request = Request("PATCH");
  request.headers = {"Content-Type: application/octet-stream",
                     Cat("Content-Range: ", offset_, "-", end - 1)};
  request.body = body_.Part(offset_, end - offset_);
  const RegistryClient::Asked asked = client_.AskOnce(std::move(request), client_.PushScopes());
  last_ = asked.attempt.reply;
  const Step step = TakeAnswer(asked, end);
  if (step != Step::kAsk) return step;
  const remote::RetryRule& rule = client_.http().settings().retry;
  const bool reached = !asked.attempt.error || asked.attempt.error->code != Code::kUnavailable;
  if (patience_.IsOver(failures_, reached, remote::Patience::Clock::now()))
    return Failed(asked, What::kFailed);
  const Status rested =
      remote::HttpClient::PauseAfterTry(rule, UploadName(client_, body_.blob()),
                                        asked.renewed ? HttpReply() : last_, failures_.tries);
  return rested ? Step::kAsk : Fail(What::kFailed, rested.error());
}

SendEnd ChunkedUpload::Run() {
  const std::string& digest = body_.blob().digest;
  while (offset_ < body_.size()) {
    if (const Status go = CheckInterrupt(); !go) return SendFailed(What::kFailed, go.error());
    Step step = SendChunk();
    if (step == Step::kAsk) step = AskWhere();
    if (step != Step::kEnd) continue;
    const bool goes_on = end_.what == What::kFailed && end_.error->code != Code::kMismatch;
    if (!goes_on) journal_.Forget(digest);
    return std::move(end_);
  }
  SendEnd end = PutBlob(client_, session_, body_, offset_);
  // The bytes sent by another process may have been different.
  const bool other = end.what == What::kFailed && end.reply.status == 400 && resumed_;
  if (end.what == What::kOtherMode) end.what = What::kFailed;
  if (other) end.what = What::kAgain;
  journal_.Forget(digest);
  return end;
}

bool SurvivesCuts(const RegistryClient& client) {
  const Result<UploadSession> session = client.StartUpload();
  if (!session) return false;
  HttpRequest request;
  request.name = Cat(client.name(), ": upload");
  request.url = session->url;
  request.method = "PATCH";
  request.headers = {"Content-Type: application/octet-stream", "Content-Range: 0-1"};
  request.body = remote::TextBody("{}");
  const Scopes scopes = client.PushScopes();
  const RegistryClient::Asked sent = client.AskOnce(request, scopes);
  if (sent.attempt.error || !IsTaken(sent.attempt.reply.status)) return false;
  request.method = "GET";
  request.headers.clear();
  request.body.reset();
  const RegistryClient::Asked asked = client.AskOnce(request, scopes);
  const bool survives = !asked.attempt.error && asked.attempt.reply.status == 204 &&
                        asked.attempt.reply.Field("range") == "0-1";
  const Result<remote::Url> last = client.LocationOf(sent.attempt.reply, request.name);
  if (last) request.url = *last;
  request.method = "DELETE";
  (void)client.AskOnce(request, scopes);
  return survives;
}

}  // namespace moepack::registry
