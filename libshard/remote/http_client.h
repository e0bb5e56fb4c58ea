// Requests over HTTP by libcurl: kept connections, redirects by hand, repeated tries, and bodies
// that stream into a sink which may refuse them.
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
#include "libshard/remote/http_settings.h"
#include "libshard/remote/pace.h"
#include "libshard/remote/url.h"

namespace moepack::remote {

// A signature of AWS, version 4, over what is sent.
struct AwsSignature {
  std::string region, key, secret, session_token;
};

// What a request sends. It is read from front to back, and from the front again for a redirect that
// repeats it and where libcurl has to send it anew.
struct HttpBody {
  uint64_t size = 0;  // bytes
  // Fills all of `out`, which begins at `offset`. The first error ends the transfer.
  std::function<Status(uint64_t offset, std::span<std::byte> out)> read;
  bool secret = false;  // what answers it is not quoted
};
HttpBody TextBody(std::string text);

struct HttpRequest {
  std::string method = "GET";  // HEAD, POST, PUT, PATCH or DELETE
  Url url;
  std::string name;                       // what messages call it: without secrets
  std::vector<std::string> headers = {};  // "Range: bytes=0-99"
  // Go to the origin of `url` only, not to where it redirects.
  std::string authorization = {};  // value of the header, "" for none
  std::optional<AwsSignature> aws = std::nullopt;
  // None: redirects are the answer. Relative ones lead back to the same server.
  enum class Follow : uint8_t { kNone, kRelative, kAll } follow = Follow::kAll;
  // Of POST, PUT and PATCH, which have an empty one without it. Redirects repeat it with 307 and
  // 308; others of a method that is not GET or HEAD are the answer.
  std::optional<HttpBody> body = std::nullopt;
  const char* expected = "the file";  // that is asked for, in messages
};

struct HttpReply {
  int status = 0;
  HttpFields fields;
  Url url;  // that answered, after redirects
  // The body's end can be told from that of the connection.
  bool end_is_marked = false;
  std::string body;      // what an answer of 400 and above begins with, for messages
  bool quotable = true;  // the body repeats nothing that was sent in confidence

  std::string_view Field(std::string_view field) const { return FieldOf(fields, field); }
};

// Takes the body of an answer of 200 to 299. The first error ends the transfer.
class HttpSink {
 public:
  virtual ~HttpSink() = default;
  // With status and header fields, before the body; again for every try.
  virtual Status Begin(const HttpReply& head) = 0;
  virtual Status Take(std::span<const std::byte> bytes) = 0;
  // The next try goes on behind what the last one took.
  virtual bool goes_on() const { return false; }
};

// A status that is an error, in words: kNotFound for 404, kIo for 401, 403 and others that are the
// asker's, kUnavailable for the server's. `reply.body` is quoted where it is text.
Error StatusError(const std::string& name, const HttpReply& reply,
                  const char* expected = "the file");

// What one try came to.
struct HttpTry {
  HttpReply reply;                            // of status 0 where there is none
  std::optional<Error> error = std::nullopt;  // none: there is an answer, of whatever status
  bool transient = false;                     // the error may not come again
  uint64_t bytes = 0;                         // of the body that came
};

// Used by several threads at once; no more than HttpSettings::in_flight requests to one host are
// under way. A server that says by RateLimit that few requests are left is asked at that rate.
class HttpClient {
 public:
  explicit HttpClient(HttpSettings settings);
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;
  ~HttpClient();

  // Asks until there is an answer that is not transient; an answer of any other status is a value.
  // `next` makes the request of each try, so that it can go on where the last one ended; one that
  // went on by a MiB is not counted. Errors:
  // kUnavailable when the server cannot be reached or stays busy, kIo when the transfer breaks off
  // every time or a redirect is refused, kInvalidArgument for http where it is not allowed,
  // kInterrupted, and those of the sink.
  Result<HttpReply> Perform(const std::function<HttpRequest()>& next, HttpSink& sink);
  // A body of at most `limit` bytes as `body`, whatever the status; more is kIo.
  Result<HttpReply> Fetch(const HttpRequest& request, uint64_t limit);

  // One try, redirects followed: an answer of any status is a value. Errors are those of Perform.
  HttpTry Once(HttpRequest request, HttpSink& sink);
  HttpTry FetchOnce(const HttpRequest& request, uint64_t limit);
  // Waits after try number `tried` (from 1) as the server asks for or the rule says; kUnavailable
  // when the server asks for more than the rule allows.
  static Status PauseAfterTry(const RetryRule& rule, const std::string& name,
                              const HttpReply& reply, int tried);

  // Counts memory for a file that is read whole; false when HttpSettings::whole_files has no room.
  bool HoldWhole(uint64_t bytes);

  const HttpSettings& settings() const { return settings_; }
  Traffic traffic() const { return {requests_, bytes_}; }

 private:
  class Handle;

  std::optional<Error> Follow(const HttpReply& reply, HttpRequest& request) const;
  Status CheckScheme(const Url& url, const std::string& name) const;
  Status WaitForTurn(const Url& url);
  std::unique_ptr<Handle> Acquire(const std::string& origin);
  void Release(const HttpReply& reply, std::unique_ptr<Handle> handle);

  HttpSettings settings_;
  std::mutex mutex_;
  std::condition_variable released_;
  struct Host {
    std::vector<std::unique_ptr<Handle>> idle;
    size_t busy = 0;
  };
  std::map<std::string, Host> hosts_;  // by origins
  std::map<std::string, Pace> paces_;  // by parts of hosts that may have limits of their own
  uint64_t whole_ = 0;
  std::atomic<bool> slowed_{false};
  std::atomic<uint64_t> requests_{0}, bytes_{0};
};

using HttpClientPtr = std::shared_ptr<HttpClient>;

}  // namespace moepack::remote
