// A local web server for tests: it serves files with ranges, counts what it sends, and misbehaves
// in every way that a test requests.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace moepack::remote {

struct FakeRequest {
  std::string method, path, query;            // the path is decoded
  std::string proxied;                        // "host:port" of a request to a proxy, else ""
  std::string body;                           // as much of it as was read
  std::map<std::string, std::string> fields;  // names in lower case
  // The two numbers of "Range: bytes=a-b".
  std::optional<std::pair<uint64_t, uint64_t>> Range() const;
  std::string Field(const std::string& name) const;
};

// The reply. Content-Length is that of `body` unless `fields` has another one.
struct FakeAnswer {
  int status = 200;
  std::vector<std::pair<std::string, std::string>> fields;
  std::string body;
  size_t cut_after = SIZE_MAX;            // bytes of the body; then the connection is closed
  std::chrono::milliseconds per_byte{0};  // sends byte by byte
  bool no_length = false;                 // the body ends with the connection
  bool chunked = false;                   // the body marks its own end
  // The body is this part of an open file, not `body`.
  struct FilePart {
    int descriptor = -1;
    uint64_t offset = 0, length = 0;
  };
  FilePart part = {};

  void Set(const std::string& name, const std::string& value);
  void Remove(const std::string& name);
};

// How an announced request body is read.
struct BodyPlan {
  uint64_t most = UINT64_MAX;  // bytes that are read; then the connection is closed
  // Sent without reading more; the rest is dropped.
  std::optional<FakeAnswer> answer = std::nullopt;
  // Called with a body that was not read to its end.
  std::function<void(const FakeRequest&)> cut = {};
};

FakeAnswer Plain(int status, std::string body = "");
// A redirect.
FakeAnswer LeadTo(int status, const std::string& location);

class FaultServer {
 public:
  // Sees the reply that a good server would give and may change it. Called by several threads.
  using Fault = std::function<void(const FakeRequest&, FakeAnswer&)>;

  // Sees a request with a body before the body is read.
  using BodyFault = std::function<BodyPlan(const FakeRequest&)>;

  FaultServer();
  FaultServer(const FaultServer&) = delete;
  FaultServer& operator=(const FaultServer&) = delete;
  ~FaultServer();

  // "http://127.0.0.1:4711".
  std::string origin() const;
  // `path` begins with '/'. Files get an ETag made of their bytes.
  void Add(const std::string& path, std::string bytes);
  // Every file directly in a local directory, below `path` ("/model/").
  void AddDirectory(const std::string& path, const std::string& directory);
  // The same without reading them: they may be large and sparse. They must not change.
  void ServeDirectory(const std::string& path, const std::string& directory);
  void SetFault(Fault fault);
  void SetBodyFault(BodyFault fault);
  // Before every reply.
  void SetDelay(std::chrono::milliseconds delay) { delay_ = delay; }
  // Directory pages with links, like nginx's.
  void SetListing(bool on) { listing_ = on; }

  // Since the last Forget().
  std::vector<FakeRequest> requests() const;
  uint64_t bytes() const { return bytes_; }        // of sent bodies
  uint64_t received() const { return received_; }  // of read bodies
  size_t connections() const;                      // in all
  void Forget();

  // The basis of the ETag that Add makes.
  static std::string EtagOf(const std::string& bytes);

 private:
  struct File {
    std::string bytes, etag;
    uint64_t size = 0;
    int descriptor = -1;  // for a file that was not read
  };
  void Accept();
  void Serve(int connection);
  bool ReadBody(int connection, std::string& buffer, FakeRequest& request);
  bool Answer(int connection, const FakeRequest& request);
  FakeAnswer Good(const FakeRequest& request) const;
  static void SendBody(int connection, const FakeAnswer& answer);
  std::optional<FakeAnswer> Listing(const std::string& path) const;

  int listener_ = -1;
  uint16_t port_ = 0;
  mutable std::mutex mutex_;
  std::map<std::string, File> files_;
  Fault fault_;
  BodyFault body_fault_;
  std::vector<FakeRequest> requests_;
  std::atomic<uint64_t> bytes_{0}, received_{0};
  std::atomic<std::chrono::milliseconds> delay_{};
  std::atomic<bool> listing_{false}, stopping_{false};
  std::vector<int> connections_;
  std::vector<std::jthread> workers_;
  std::jthread acceptor_;
};

}  // namespace moepack::remote
