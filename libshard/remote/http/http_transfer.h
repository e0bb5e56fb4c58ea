// One transfer on one easy handle of libcurl. Only http_client.cc needs it.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"
#include "libshard/remote/http/libcurl.h"

namespace moepack::remote {

struct TransferEnd {
  HttpReply reply;
  std::optional<Error> error;
  bool transient = false;  // the error may not recur
  uint64_t bytes = 0;      // received body bytes
};

// Borrows everything it is given; runs once.
class HttpTransfer {
 public:
  HttpTransfer(CURL* curl, const HttpSettings& settings, const HttpRequest& request, HttpSink& sink)
      : curl_(curl), settings_(settings), request_(request), sink_(sink) {}
  HttpTransfer(const HttpTransfer&) = delete;
  HttpTransfer& operator=(const HttpTransfer&) = delete;
  ~HttpTransfer() { Curl().slist_free_all(headers_); }

  TransferEnd Run();

 private:
  static size_t OnHeader(char* data, size_t size, size_t count, void* self);
  static size_t OnBody(char* data, size_t size, size_t count, void* self);
  static size_t OnRead(char* out, size_t size, size_t count, void* self);
  static int OnSeek(void* self, curl_off_t offset, int origin);
  static int OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent);

  void SetTransport();
  void SetTls();
  void SetRequest();
  void SetBody();
  bool TakeHeader(std::string_view line);
  bool TakeBody(std::string_view bytes);
  size_t GiveBody(std::span<std::byte> out);
  bool Stalls(uint64_t sent);
  bool IsRefusal() const;
  bool IsValue() const { return end_.reply.status >= 200 && end_.reply.status < 300; }
  Error Failure(CURLcode code) const;

  CURL* curl_;
  const HttpSettings& settings_;
  const HttpRequest& request_;
  HttpSink& sink_;
  curl_slist* headers_ = nullptr;
  char reason_[CURL_ERROR_SIZE] = {};
  size_t header_bytes_ = 0;
  bool enough_ = false;    // the rest of an error's body is not needed
  bool answered_ = false;  // the header of the last answer is complete
  bool sends_ = false;     // a body, which may be empty
  uint64_t given_ = 0;     // body bytes given to libcurl
  bool stalled_ = false;
  struct {
    std::chrono::steady_clock::time_point since;
    uint64_t sent = 0;
    bool all = false;  // the whole body was sent
  } window_;
  TransferEnd end_;
};

}  // namespace moepack::remote
