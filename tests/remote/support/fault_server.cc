#include "tests/remote/support/fault_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <stdexcept>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/url.h"

namespace moepack::remote {
namespace {

constexpr size_t kMostHeader = 1u << 20;
constexpr const char* kModified = "Sat, 01 Aug 2026 10:00:00 GMT";

void SendAll(int connection, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(connection, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) throw std::runtime_error("closed");
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
}

void SendPart(int connection, const FakeAnswer::FilePart& part) {
  auto at = static_cast<off_t>(part.offset);
  const auto end = static_cast<off_t>(part.offset + part.length);
  while (at < end) {
    const ssize_t sent = sendfile(connection, part.descriptor, &at, static_cast<size_t>(end - at));
    if (sent <= 0) throw std::runtime_error("closed");
  }
}

// Up to and including the blank line; "" if the connection ends.
std::string ReadHeader(int connection, std::string& buffer) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  while (buffer.find(kEnd) == std::string::npos && buffer.size() < kMostHeader) {
    char bytes[4096];
    const ssize_t got = recv(connection, bytes, sizeof(bytes), 0);
    if (got <= 0) return "";
    buffer.append(bytes, static_cast<size_t>(got));
  }
  const size_t end = buffer.find(kEnd) + kEnd.size();
  std::string header = buffer.substr(0, end);
  buffer.erase(0, end);
  return header;
}

FakeRequest ParseRequest(const std::string& header) {
  std::istringstream lines(header);
  FakeRequest request;
  std::string target, line;
  lines >> request.method >> target;
  std::getline(lines, line);
  constexpr std::string_view kScheme = "http://";
  if (target.starts_with(kScheme)) {
    const size_t path = target.find('/', kScheme.size());
    request.proxied = target.substr(kScheme.size(), path - kScheme.size());
    target.erase(0, path);
  }
  const size_t mark = target.find('?');
  request.path = DecodePercent(target.substr(0, mark));
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  while (std::getline(lines, line) && line != "\r") {
    const size_t colon = line.find(':');
    const size_t value = line.find_first_not_of(' ', colon + 1);
    request.fields[Lower(line.substr(0, colon))] = line.substr(value, line.size() - value - 1);
  }
  return request;
}

// As in RFC 9112, 7.1, including the last chunk.
std::string OneChunk(const std::string& bytes) {
  std::ostringstream size;
  size << std::hex << bytes.size();
  return Cat(size.str(), "\r\n", bytes, "\r\n0\r\n\r\n");
}

// The header of a reply and the rest of its body; nothing of it may be lost.
void SendWhole(int connection, FakeAnswer answer) {
  std::string text = Cat("HTTP/1.1 ", answer.status, " Fake\r\n");
  answer.Set("Content-Length", std::to_string(answer.body.size()));
  for (const auto& [name, value] : answer.fields) text += Cat(name, ": ", value, "\r\n");
  SendAll(connection, Cat(text, "\r\n", answer.body));
}

// Keeps reading so that the client sees the reply: closing with unread bytes would reset the
// connection.
void Drain(int connection) {
  shutdown(connection, SHUT_WR);
  char bytes[4096];
  while (recv(connection, bytes, sizeof(bytes), 0) > 0) {
  }
}

}  // namespace

std::optional<std::pair<uint64_t, uint64_t>> FakeRequest::Range() const {
  const std::string range = Field("range");
  const size_t dash = range.find('-');
  if (!range.starts_with("bytes=") || dash == std::string::npos) return std::nullopt;
  return std::pair{*ParseUint(range.substr(6, dash - 6)), *ParseUint(range.substr(dash + 1))};
}

std::string FakeRequest::Field(const std::string& name) const {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

void FakeAnswer::Set(const std::string& name, const std::string& value) {
  Remove(name);
  fields.emplace_back(name, value);
}

void FakeAnswer::Remove(const std::string& name) {
  std::erase_if(fields, [&](const auto& field) { return Lower(field.first) == Lower(name); });
}

FakeAnswer Plain(int status, std::string body) {
  FakeAnswer answer;
  answer.status = status;
  answer.body = std::move(body);
  answer.Set("Content-Type", "text/plain");
  return answer;
}

FakeAnswer LeadTo(int status, const std::string& location) {
  FakeAnswer answer = Plain(status, "moved");
  answer.Set("Location", location);
  return answer;
}

FaultServer::FaultServer() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  const bool ready = bind(listener_, raw, size) == 0 && listen(listener_, 64) == 0 &&
                     getsockname(listener_, raw, &size) == 0;
  if (!ready) throw std::runtime_error("no port for the test's server");
  port_ = ntohs(address.sin_port);
  acceptor_ = std::jthread([this] { Accept(); });
}

FaultServer::~FaultServer() {
  stopping_ = true;
  shutdown(listener_, SHUT_RDWR);
  acceptor_.join();
  {
    const std::lock_guard lock(mutex_);
    for (const int connection : connections_) shutdown(connection, SHUT_RDWR);
  }
  workers_.clear();
  for (const int connection : connections_) close(connection);
  for (const auto& [path, file] : files_) {
    if (file.descriptor >= 0) close(file.descriptor);
  }
  close(listener_);
}

std::string FaultServer::origin() const { return Cat("http://127.0.0.1:", port_); }

std::string FaultServer::EtagOf(const std::string& bytes) {
  return Cat('"', Sha256Hex(bytes).substr(0, 12), '"');
}

void FaultServer::Add(const std::string& path, std::string bytes) {
  File file;
  file.etag = EtagOf(bytes);
  file.size = bytes.size();
  file.bytes = std::move(bytes);
  const std::lock_guard lock(mutex_);
  files_[path] = std::move(file);
}

void FaultServer::ServeDirectory(const std::string& path, const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    File file;
    file.size = entry.file_size();
    file.etag = EtagOf(Cat(entry.path().string(), file.size));
    file.descriptor = open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file.descriptor < 0) throw std::runtime_error("the test's server cannot open a file");
    const std::lock_guard lock(mutex_);
    files_[path + entry.path().filename().string()] = std::move(file);
  }
}

void FaultServer::AddDirectory(const std::string& path, const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (entry.is_regular_file())
      Add(path + entry.path().filename().string(), fixtures::ReadFile(entry));
  }
}

void FaultServer::SetFault(Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

void FaultServer::SetBodyFault(BodyFault fault) {
  const std::lock_guard lock(mutex_);
  body_fault_ = std::move(fault);
}

std::vector<FakeRequest> FaultServer::requests() const {
  const std::lock_guard lock(mutex_);
  return requests_;
}

size_t FaultServer::connections() const {
  const std::lock_guard lock(mutex_);
  return connections_.size();
}

void FaultServer::Forget() {
  const std::lock_guard lock(mutex_);
  requests_.clear();
  bytes_ = 0;
  received_ = 0;
}

void FaultServer::Accept() {
  while (!stopping_) {
    const int connection = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    const int on = 1;
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    const std::lock_guard lock(mutex_);
    connections_.push_back(connection);
    workers_.emplace_back([this, connection] { Serve(connection); });
  }
}

void FaultServer::Serve(int connection) {
  std::string buffer;
  try {
    while (!stopping_) {
      const std::string header = ReadHeader(connection, buffer);
      if (header.empty()) break;
      FakeRequest request = ParseRequest(header);
      if (!ReadBody(connection, buffer, request) || !Answer(connection, request)) break;
    }
  } catch (const std::exception&) {  // the client closed the connection
  }
  shutdown(connection, SHUT_RDWR);
}

// False if the connection is to be closed.
bool FaultServer::ReadBody(int connection, std::string& buffer, FakeRequest& request) {
  const uint64_t size = ParseUint(request.Field("content-length")).value_or(0);
  if (size == 0) return true;
  BodyFault fault;
  {
    const std::lock_guard lock(mutex_);
    fault = body_fault_;
  }
  BodyPlan plan = fault ? fault(request) : BodyPlan{};
  const uint64_t wanted = std::min(size, plan.most);
  if (wanted > 0 && request.Field("expect") == "100-continue")
    SendAll(connection, "HTTP/1.1 100 Continue\r\n\r\n");
  std::string bytes(256u << 10, '\0');
  while (buffer.size() < wanted) {
    const ssize_t got = recv(connection, bytes.data(), bytes.size(), 0);
    if (got <= 0) break;
    buffer.append(bytes, 0, static_cast<size_t>(got));
  }
  request.body = buffer.substr(0, wanted);
  buffer.erase(0, wanted);
  received_ += request.body.size();
  if (!plan.answer && request.body.size() == size) return true;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
  }
  if (plan.cut) plan.cut(request);
  if (plan.answer) SendWhole(connection, *std::move(plan.answer));
  if (plan.answer) Drain(connection);
  return false;
}

std::optional<FakeAnswer> FaultServer::Listing(const std::string& path) const {
  if (!listing_ || !path.ends_with('/')) return std::nullopt;
  std::string page = Cat("<html><head><title>Index of ", path, "</title></head>\n<body><pre>",
                         "<a href=\"../\">../</a>\n");
  for (const auto& [at, file] : files_) {
    if (!at.starts_with(path) || at.find('/', path.size()) != std::string::npos) continue;
    const std::string name = at.substr(path.size());
    page += Cat("<a href=\"", EncodePath(name), "\">", name, "</a> ", file.size, "\n");
  }
  FakeAnswer answer = Plain(200, page + "</pre></body></html>");
  answer.Set("Content-Type", "text/html");
  return answer;
}

// nginx's reply.
FakeAnswer FaultServer::Good(const FakeRequest& request) const {
  const std::lock_guard lock(mutex_);
  const auto found = files_.find(request.path);
  if (found == files_.end()) return Listing(request.path).value_or(Plain(404, "no such file"));
  const File& file = found->second;
  FakeAnswer answer;
  answer.Set("ETag", file.etag);
  answer.Set("Last-Modified", kModified);
  answer.Set("Accept-Ranges", "bytes");
  const auto fill = [&](uint64_t from, uint64_t count) {
    if (file.descriptor < 0) answer.body = file.bytes.substr(from, count);
    if (file.descriptor >= 0) answer.part = {file.descriptor, from, count};
  };
  const auto range = request.Range();
  const std::string condition = request.Field("if-range");
  const bool same = condition.empty() || condition == file.etag || condition == kModified;
  if (!range || !same) {
    fill(0, file.size);
    return answer;
  }
  if (range->first >= file.size) {
    answer.status = 416;
    answer.Set("Content-Range", Cat("bytes */", file.size));
    return answer;
  }
  const uint64_t last = std::min<uint64_t>(range->second, file.size - 1);
  answer.status = 206;
  answer.Set("Content-Range", Cat("bytes ", range->first, "-", last, "/", file.size));
  fill(range->first, last - range->first + 1);
  return answer;
}

void FaultServer::SendBody(int connection, const FakeAnswer& answer) {
  if (answer.part.length > 0) return SendPart(connection, answer.part);
  SendAll(connection, std::string_view(answer.body).substr(0, answer.cut_after));
}

// False if the connection is to be closed.
bool FaultServer::Answer(int connection, const FakeRequest& request) {
  Fault fault;
  {
    const std::lock_guard lock(mutex_);
    requests_.push_back(request);
    fault = fault_;
  }
  FakeAnswer answer = Good(request);
  if (fault) fault(request, answer);
  std::this_thread::sleep_for(delay_.load());
  if (answer.chunked) {
    answer.Set("Transfer-Encoding", "chunked");
    answer.body = OneChunk(answer.body);
  }
  std::string header = Cat("HTTP/1.1 ", answer.status, " Fake\r\n");
  const bool has_length =
      std::any_of(answer.fields.begin(), answer.fields.end(),
                  [](const auto& field) { return Lower(field.first) == "content-length"; });
  if (!has_length && !answer.no_length && !answer.chunked)
    answer.fields.emplace_back("Content-Length",
                               std::to_string(answer.body.size() + answer.part.length));
  for (const auto& [name, value] : answer.fields) header += Cat(name, ": ", value, "\r\n");
  SendAll(connection, header + "\r\n");
  if (request.method == "HEAD") return true;
  const std::string_view body = std::string_view(answer.body).substr(0, answer.cut_after);
  if (answer.per_byte.count() == 0) {
    bytes_ += body.size() + answer.part.length;
    SendBody(connection, answer);
  } else {
    for (const char c : body) {
      if (stopping_) return false;
      std::this_thread::sleep_for(answer.per_byte);
      SendAll(connection, {&c, 1});
    }
  }
  return body.size() == answer.body.size() && !answer.no_length;
}

}  // namespace moepack::remote
