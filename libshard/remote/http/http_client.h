// Requests over HTTP with libcurl: persistent connections, redirects handled here, retries, and
// bodies that are streamed into a sink which may reject them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "libshard/remote/http/http_settings.h"
#include "libshard/remote/http/pace.h"
#include "libshard/remote/http/patience.h"
#include "libshard/remote/http/url.h"

namespace moepack::remote {

// An AWS signature, version 4, of what is sent.
struct AwsSignature {
  std::string region, key, secret, session_token;
};

// What a request sends. It is read from front to back, and again from the front for a redirect that
// repeats it or if libcurl has to resend it.
struct HttpBody {
  uint64_t size = 0;  // bytes
  // Fills all of `out`, which begins at `offset`. The first error ends the transfer.
  std::function<Status(uint64_t offset, std::span<std::byte> out)> read;
  bool secret = false;  // answers to it are not quoted
};
HttpBody TextBody(std::string text);

struct HttpRequest {
  std::string method = "GET";  // HEAD, POST, PUT, PATCH or DELETE
  Url url;
  std::string name;                       // its name in messages, without secrets
  std::vector<std::string> headers = {};  // "Range: bytes=0-99"
  // Sent only to the origin of `url`, not to where it redirects.
  std::string authorization = {};  // value of the header, "" for none
  std::optional<AwsSignature> aws = std::nullopt;
  // kNone: redirects are returned as the answer. Relative ones lead back to the same server.
  enum class Follow : uint8_t { kNone, kRelative, kAll } follow = Follow::kAll;
  // For POST, PUT and PATCH, whose body is empty without it. Redirects with 307 and 308 repeat it;
  // other redirects of a method that is not GET or HEAD are returned as the answer.
  std::optional<HttpBody> body = std::nullopt;
  const char* expected = "the file";  // what is asked for, in messages
};

struct HttpReply {
  int status = 0;
  HttpFields fields;
  Url url;  // the one that answered, after redirects
  // The end of the body can be distinguished from that of the connection.
  bool end_is_marked = false;
  std::string body;      // the beginning of an answer of 400 and above, for messages
  bool quotable = true;  // the body does not repeat anything sent in confidence

  std::string_view Field(std::string_view field) const { return FieldOf(fields, field); }
};

// Receives the body of an answer of 200 to 299. The first error ends the transfer.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // Called with status and header fields before the body, again for every try.
  virtual Status Begin(const HttpReply& head) = 0;
  virtual Status Take(std::span<const std::byte> bytes) = 0;
  // Whether the next try continues after what the last one received.
  virtual bool goes_on() const { return false; }
};

// A status that is an error, in words: kNotFound for 404, kIo for 401, 403 and other client errors,
// kUnavailable for server errors. `reply.body` is quoted if it is text.
Error StatusError(const std::string& name, const HttpReply& reply,
                  const char* expected = "the file");

// The result of one try.
struct HttpTry {
  HttpReply reply;                            // with status 0 if there is none
  std::optional<Error> error = std::nullopt;  // no value: there is an answer, of any status
  bool transient = false;                     // the error may not recur
  uint64_t bytes = 0;                         // received body bytes
};

// Safe to use from several threads at once; at most HttpSettings::in_flight requests to one host
// are in progress, and no more than a server's RateLimit says if few are left.
class HttpClient {
 public:
  explicit HttpClient(HttpSettings settings);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  // Retries until there is an answer that is not transient, while this client makes progress
  // (patience.h); an answer of any other status is a value. `next` makes the request of each try,
  // so that it can resume where the last one ended. A request that gives up before there was any
  // such answer ends all later ones with its error. Errors: kUnavailable if the server cannot be
  // reached or stays busy, kIo if every transfer is cut off or a redirect is refused,
  // kInvalidArgument for http where it is not allowed, kInterrupted, and those of the sink.
  Result<HttpReply> Perform(const std::function<HttpRequest()>& next, HttpSink& sink);
  // A body of at most `limit` bytes as `body`, whatever the status; more is kIo.
  Result<HttpReply> Fetch(const HttpRequest& request, uint64_t limit);

  // One try, following redirects: an answer of any status is a value. Errors are those of Perform.
  HttpTry Once(HttpRequest request, HttpSink& sink);
  HttpTry FetchOnce(const HttpRequest& request, uint64_t limit);
  // Waits after try number `tried` (from 1) as the server asks or the rule says; kUnavailable if
  // the server asks for more than the rule allows.
  static Status PauseAfterTry(const RetryRule& rule, const std::string& name,
                              const HttpReply& reply, int tried);

  // Reserves memory for a file that is read whole; false if HttpSettings::whole_files has no room.
  bool HoldWhole(uint64_t bytes);

  const HttpSettings& settings() const { return settings_; }
  Traffic traffic() const { return {requests_, bytes_, given_up_}; }

 private:
  class Handle;
  std::optional<Error> Follow(const HttpReply& reply, HttpRequest& request) const;
  Status CheckScheme(const Url& url, const std::string& name) const;
  Status WaitForTurn(const Url& url);
  Error GiveUp(Error error);
  std::optional<Error> Unanswered();
  std::unique_ptr<Handle> Acquire(const std::string& origin);
  void Release(const HttpReply& reply, std::unique_ptr<Handle> handle);

  HttpSettings settings_;
  Patience patience_;
  std::mutex mutex_;
  std::condition_variable released_;
  struct Host {
    std::vector<std::unique_ptr<Handle>> idle;
    size_t busy = 0;
  };
  std::map<std::string, Host> hosts_;  // by origin
  std::map<std::string, Pace> paces_;  // by parts of hosts that may have their own limits
  uint64_t whole_ = 0;
  std::optional<Error> unanswered_;  // of the request that gave up before there was any answer
  std::atomic<bool> slowed_{false};
  std::atomic<uint64_t> requests_{0}, bytes_{0}, given_up_{0};
};

using HttpClientPtr = std::shared_ptr<HttpClient>;

}  // namespace moepack::remote
