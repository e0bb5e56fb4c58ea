#include "libshard/remote/http/http_client.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "libshard/base/parallel.h"
#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/http_transfer.h"
#include "libshard/remote/http/libcurl.h"

namespace moepack::remote {
namespace {

constexpr int kMostHops = 5;
constexpr size_t kQuotedBody = 200;

bool IsRedirect(int status) {
  return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

// A body is not sent a second time, and the method is not replaced by GET, unless the server says
// so.
bool MayRepeat(const std::string& method, int status) {
  return method == "GET" || method == "HEAD" || status == 307 || status == 308;
}

// "//host/path" has no scheme but still leads elsewhere.
bool IsRelative(std::string_view location, const Url& base) {
  const Result<Url> target = ResolveLocation(base, location);
  return location.find("://") == location.npos && target && target->SameOrigin(base);
}

// Whether a server's answer repeats something that was sent in confidence. An AWS signature has
// many forms, so no answer to one is trusted.
bool Repeats(std::string_view body, const HttpRequest& request) {
  constexpr size_t kShortest = 6;
  if (request.aws || (request.body && request.body->secret)) return true;
  std::vector<std::string> secrets = {request.url.query, request.url.password};
  for (const std::string& word : Split(request.authorization, ' ')) {
    secrets.push_back(word);
    const std::string pair = DecodeBase64(word).value_or("");  // user and password
    if (pair.find(':') != pair.npos) secrets.push_back(pair.substr(pair.find(':') + 1));
  }
  if (!request.url.user.empty())
    secrets.push_back(EncodeBase64(Cat(request.url.user, ":", request.url.password)));
  for (const std::string& pair : Split(request.url.query, '&'))
    secrets.push_back(pair.substr(std::min(pair.find('=') + 1, pair.size())));
  return std::any_of(secrets.begin(), secrets.end(), [&](const std::string& secret) {
    const bool found =
        body.find(secret) != body.npos || body.find(DecodePercent(secret)) != body.npos;
    return found && (secret.size() >= kShortest || secret == request.url.password) &&
           !secret.empty() && secret != "Bearer";
  });
}

// The helpful part of a body: one line of text, and nothing from a web page.
std::string BodyHint(const HttpReply& reply) {
  const std::string_view type = reply.Field("content-type");
  if (reply.body.empty() || !reply.quotable || type.find("html") != type.npos) return "";
  return Cat(": ", Quoted(reply.body.substr(0, kQuotedBody)));
}

const char* StatusHint(int status) {
  if (status == 401 || status == 403)
    return "access was refused: check the token or the keys, and that the address is right";
  if (status == 404 || status == 410) return "check the spelling of the address";
  if (status == 429) return "the server limits requests: wait some minutes, or log in for more";
  if (status >= 500) return "the server has a problem: run the command again later";
  return "";
}

// The Hub counts requests to its API separately from those for files, so a limit belongs to the
// first part of a path.
std::string LimitedPart(const Url& url) {
  return Cat(url.Origin(), url.path.substr(0, url.path.find('/', 1)));
}

Error PauseTooLong(const std::string& name, int status, Seconds pause) {
  constexpr Seconds kDay{86400};
  const std::string shown =
      pause > kDay ? "more than a day" : Cat(static_cast<uint64_t>(pause.count()), " s");
  return {Code::kUnavailable, Cat(name, ": status ", status, ": the server asks to wait ", shown),
          status == 429 ? StatusHint(status)
                        : "the server is not available: run the command again after that time"};
}

// Collects a whole body.
class TextSink final : public HttpSink {
 public:
  TextSink(std::string name, uint64_t limit) : name_(std::move(name)), limit_(limit) {}
  Status Begin(const HttpReply& head) override {
    text_.clear();
    const std::string_view encoding = head.Field("content-encoding");
    if (encoding.empty() || encoding == "identity") return Ok();
    return Error{Code::kIo,
                 Cat(name_, ": Content-Encoding: expected none, found ", Quoted(encoding)),
                 "the server compresses although it was asked not to: use another one"};
  }
  Status Take(std::span<const std::byte> bytes) override {
    text_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text_.size() <= limit_) return Ok();
    return Error{Code::kIo,
                 Cat(name_, ": answer: expected at most ", limit_, " bytes, found more")};
  }
  std::string Take() && { return std::move(text_); }

 private:
  std::string name_;
  uint64_t limit_;
  std::string text_;
};

}  // namespace

HttpBody TextBody(std::string text) {
  const uint64_t size = text.size();
  const auto held = std::make_shared<const std::string>(std::move(text));
  return {size, [held](uint64_t offset, std::span<std::byte> out) -> Status {
            std::memcpy(out.data(), held->data() + offset, out.size());
            return Ok();
          }};
}

Error StatusError(const std::string& name, const HttpReply& reply, const char* expected) {
  const int status = reply.status;
  Code code = Code::kIo;
  if (status == 404 || status == 410) code = Code::kNotFound;
  if (IsTransient(status)) code = Code::kUnavailable;
  return {code, Cat(name, ": expected ", expected, ", found status ", status, BodyHint(reply)),
          StatusHint(status)};
}

// One easy handle with the connections that it keeps.
class HttpClient::Handle {
 public:
  Handle() : curl_(Curl().easy_init()) {
    if (curl_ == nullptr) throw std::bad_alloc();
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { Curl().easy_cleanup(curl_); }
  CURL* get() const { return curl_; }

 private:
  CURL* curl_;
};

HttpClient::HttpClient(HttpSettings settings)
    : settings_(std::move(settings)), patience_(settings_.retry) {}

HttpClient::~HttpClient() = default;

std::unique_ptr<HttpClient::Handle> HttpClient::Acquire(const std::string& origin) {
  std::unique_lock lock(mutex_);
  Host& host = hosts_[origin];
  released_.wait(lock, [&] { return host.busy < settings_.in_flight; });
  ++host.busy;
  if (host.idle.empty()) return std::make_unique<Handle>();
  std::unique_ptr<Handle> handle = std::move(host.idle.back());
  host.idle.pop_back();
  return handle;
}

void HttpClient::Release(const HttpReply& reply, std::unique_ptr<Handle> handle) {
  {
    const std::lock_guard lock(mutex_);
    paces_[LimitedPart(reply.url)].Note(reply.fields, Pace::Clock::now());
    Host& host = hosts_[reply.url.Origin()];
    host.idle.push_back(std::move(handle));
    --host.busy;
  }
  released_.notify_all();
}

// A server that asks for a longer pause than the rule allows is asked at once: it then refuses in
// its own words.
Status HttpClient::WaitForTurn(const Url& url) {
  const Pace::Time now = Pace::Clock::now();
  Pace::Time turn;
  {
    const std::lock_guard lock(mutex_);
    turn = paces_[LimitedPart(url)].Take(now);
  }
  const Seconds wait = turn - now;
  if (wait.count() <= 0 || wait > settings_.retry.most_asked) return Ok();
  if (wait > Seconds(1) && !slowed_.exchange(true)) {
    settings_.warn(Cat(url.host,
                       ": the server's limit of requests is nearly reached: going slower "
                       "until its window ends; log in for more"));
  }
  return WaitFor(wait);
}

bool HttpClient::HoldWhole(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > settings_.whole_files - whole_) return false;
  whole_ += bytes;
  return true;
}

Status HttpClient::CheckScheme(const Url& url, const std::string& name) const {
  if (url.scheme == "https" || url.IsLoopback() || settings_.plain_http) return Ok();
  return Error{
      Code::kInvalidArgument,
      Cat(name, ": expected https, found http to ", url.host, ", which is not this machine"),
      "use https, or --plain-http if nobody else can reach the network in between"};
}

// Turns `request` into what the redirect requires.
std::optional<Error> HttpClient::Follow(const HttpReply& reply, HttpRequest& request) const {
  const std::string_view location = reply.Field("location");
  Result<Url> target = ResolveLocation(request.url, location);
  if (location.empty() || !target) {
    return Error{Code::kIo, Cat(request.name, ": status ", reply.status,
                                ": expected a Location to follow, found ",
                                location.empty() ? std::string("none") : "an invalid address")};
  }
  if (const Status allowed = CheckScheme(*target, request.name); !allowed) {
    return Error{Code::kIo,
                 Cat(request.name, ": redirect: expected https, found http to ", target->host),
                 "the server redirects to an address where anybody in between can change the data: "
                 "use another"};
  }
  const bool same = target->SameOrigin(request.url);
  target->user = same ? request.url.user : "";
  target->password = same ? request.url.password : "";
  if (!same) {
    request.authorization.clear();
    request.aws.reset();
  }
  request.url = *std::move(target);
  return std::nullopt;
}

HttpTry HttpClient::Once(HttpRequest request, HttpSink& sink) {
  if (const Status opened = OpenLibCurl(); !opened) return {{}, opened.error()};
  for (int hop = 0; hop <= kMostHops; ++hop) {
    if (const Status allowed = CheckScheme(request.url, request.name); !allowed)
      return {{}, allowed.error()};
    if (const Status turn = WaitForTurn(request.url); !turn) return {{}, turn.error()};
    std::unique_ptr<Handle> handle = Acquire(request.url.Origin());
    ++requests_;
    HttpTransfer transfer(handle->get(), settings_, request, sink);
    TransferEnd end = transfer.Run();
    bytes_ += end.bytes;
    end.reply.url = request.url;
    Release(end.reply, std::move(handle));
    end.reply.quotable = !Repeats(end.reply.body, request);
    const bool leads = request.follow == HttpRequest::Follow::kAll ||
                       (request.follow == HttpRequest::Follow::kRelative &&
                        IsRelative(end.reply.Field("location"), request.url));
    const bool follows = leads && MayRepeat(request.method, end.reply.status);
    if (end.error || !IsRedirect(end.reply.status) || !follows)
      return {std::move(end.reply), std::move(end.error), end.transient, end.bytes};
    if (auto error = Follow(end.reply, request)) return {{}, std::move(error)};
  }
  return {{},
          Error{Code::kIo,
                Cat(request.name, ": redirects: expected at most ", kMostHops,
                    ", found more, the last to ", request.url.host),
                "the server redirects in a circle: check the address"}};
}

Status HttpClient::PauseAfterTry(const RetryRule& rule, const std::string& name,
                                 const HttpReply& reply, int tried) {
  const auto asked = AskedPause(reply.fields);
  if (asked && *asked > rule.most_asked) return PauseTooLong(name, reply.status, *asked);
  return WaitFor(PauseAfter(rule, tried, reply.fields));
}

// What the first unanswered request says, so that a run has one cause.
Error HttpClient::GiveUp(Error error) {
  ++given_up_;
  if (!patience_.EndUnanswered()) return error;
  const std::lock_guard lock(mutex_);
  if (!unanswered_) unanswered_ = std::move(error);
  return *unanswered_;
}

std::optional<Error> HttpClient::Unanswered() {
  const std::lock_guard lock(mutex_);
  return unanswered_;
}

Result<HttpReply> HttpClient::Perform(const std::function<HttpRequest()>& next, HttpSink& sink) {
  Patience::Failures failures;
  while (true) {
    SHARD_CHECK(CheckInterrupt());
    if (auto ended = Unanswered()) return GiveUp(*std::move(ended));
    HttpRequest request = next();
    HttpTry attempt = Once(request, sink);
    const Patience::Time now = Patience::Clock::now();
    const bool busy = !attempt.error && IsTransient(attempt.reply.status);
    if (attempt.error && !attempt.transient) {
      const bool gives_up = attempt.error->code == Code::kUnavailable;
      return gives_up ? GiveUp(*std::move(attempt.error)) : *std::move(attempt.error);
    }
    if (!attempt.error && !busy) {
      patience_.Note(now);
      return std::move(attempt.reply);
    }
    if (sink.goes_on() && patience_.Keep(attempt.bytes, now)) failures = {};
    const bool reached = busy || attempt.error->code != Code::kUnavailable;
    if (patience_.IsOver(failures, reached, now)) {
      Error last = attempt.error ? *std::move(attempt.error)
                                 : StatusError(request.name, attempt.reply, request.expected);
      last.message += TriesText(settings_.retry, failures);
      return GiveUp(std::move(last));
    }
    const Status paused =
        PauseAfterTry(settings_.retry, request.name, attempt.reply, failures.tries);
    if (!paused)
      return paused.error().code == Code::kUnavailable ? GiveUp(paused.error()) : paused.error();
  }
}

Result<HttpReply> HttpClient::Fetch(const HttpRequest& request, uint64_t limit) {
  TextSink sink(request.name, limit);
  SHARD_TRY(HttpReply reply, Perform([&] { return request; }, sink));
  if (reply.status < 300) reply.body = std::move(sink).Take();
  return reply;
}

HttpTry HttpClient::FetchOnce(const HttpRequest& request, uint64_t limit) {
  TextSink sink(request.name, limit);
  HttpTry attempt = Once(request, sink);
  if (!attempt.error && attempt.reply.status < 300) attempt.reply.body = std::move(sink).Take();
  return attempt;
}

}  // namespace moepack::remote
