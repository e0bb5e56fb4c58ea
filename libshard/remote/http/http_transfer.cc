#include "libshard/remote/http/http_transfer.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack::remote {
namespace {

constexpr size_t kMostHeaderBytes = 256u << 10;
constexpr size_t kMostErrorBody = 4096;
constexpr long kUploadBuffer = 512L << 10;

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == text.npos) return "";
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// POST, PUT and PATCH state a length, if only 0.
bool SendsBody(const HttpRequest& request) {
  return request.body || request.method == "POST" || request.method == "PUT" ||
         request.method == "PATCH";
}

// Nobody answered, as opposed to an answer that was cut off.
bool IsUnreachable(CURLcode code) {
  constexpr CURLcode kUnreachable[] = {CURLE_COULDNT_RESOLVE_HOST,     CURLE_COULDNT_RESOLVE_PROXY,
                                       CURLE_COULDNT_CONNECT,          CURLE_SSL_CONNECT_ERROR,
                                       CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE};
  return std::find(std::begin(kUnreachable), std::end(kUnreachable), code) !=
         std::end(kUnreachable);
}

// Errors that stay the same however often it is tried.
bool IsLasting(CURLcode code) {
  constexpr CURLcode kLasting[] = {
      CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CACERT_BADFILE, CURLE_SSL_CERTPROBLEM,
      CURLE_UNSUPPORTED_PROTOCOL,     CURLE_URL_MALFORMAT,      CURLE_OUT_OF_MEMORY};
  return std::find(std::begin(kLasting), std::end(kLasting), code) != std::end(kLasting);
}

// What OpenSSL reports for a certificate: X509_V_ERR_CERT_NOT_YET_VALID and
// X509_V_ERR_CERT_HAS_EXPIRED.
bool IsOutOfTime(CURL* curl) {
  constexpr long kNotYetValid = 9, kHasExpired = 10;
  long verified = 0;
  Curl().easy_getinfo(curl, CURLINFO_SSL_VERIFYRESULT, &verified);
  return verified == kNotYetValid || verified == kHasExpired;
}

const char* FailureHint(CURLcode code, CURL* curl) {
  if (code == CURLE_SSL_CACERT_BADFILE)
    return "check the files that CURL_CA_BUNDLE, SSL_CERT_FILE and SSL_CERT_DIR name, or install "
           "ca-certificates";
  if (code == CURLE_PEER_FAILED_VERIFICATION && IsOutOfTime(curl))
    return "check the clock of this machine; if it is right, the server needs another certificate";
  if (code == CURLE_PEER_FAILED_VERIFICATION)
    return "check the name in the address; for an authority that this machine does not know set "
           "SSL_CERT_FILE to its certificates, or name them with --cacert where the server is a "
           "registry";
  if (code == CURLE_SSL_CONNECT_ERROR)
    return "check that the server speaks https at this port, and that SSL_CERT_FILE or --cacert "
           "has its authority, not an older one of the same name";
  if (code == CURLE_SSL_CERTPROBLEM)
    return "check the files of the client's certificate and its key: PEM, of one another, and the "
           "key "
           "not encrypted";
  if (code == CURLE_COULDNT_RESOLVE_HOST) return "check the name of the host and the network";
  if (code == CURLE_COULDNT_CONNECT) return "check that the server runs and the port is right";
  return "run the command again; what is finished is not fetched again";
}

}  // namespace

void HttpTransfer::SetTransport() {
  Curl().easy_reset(curl_);  // keeps connections and the DNS cache
  Curl().easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
  Curl().easy_setopt(curl_, CURLOPT_PROTOCOLS_STR, "http,https");
  Curl().easy_setopt(curl_, CURLOPT_FOLLOWLOCATION, 0L);
  Curl().easy_setopt(curl_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
  Curl().easy_setopt(curl_, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  Curl().easy_setopt(curl_, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
  Curl().easy_setopt(curl_, CURLOPT_BUFFERSIZE, 256L << 10);
  Curl().easy_setopt(curl_, CURLOPT_TCP_KEEPALIVE, 1L);  // while a server looks at what it got
  Curl().easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT, settings_.connect_seconds);
  Curl().easy_setopt(curl_, CURLOPT_LOW_SPEED_LIMIT, settings_.stall_bytes);
  Curl().easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME, settings_.stall_seconds);
  Curl().easy_setopt(curl_, CURLOPT_USERAGENT, settings_.user_agent.c_str());
  if (!settings_.ca_file.empty())
    Curl().easy_setopt(curl_, CURLOPT_CAINFO, settings_.ca_file.c_str());
  if (!settings_.ca_path.empty())
    Curl().easy_setopt(curl_, CURLOPT_CAPATH, settings_.ca_path.c_str());
  SetTls();
  Curl().easy_setopt(curl_, CURLOPT_ERRORBUFFER, reason_);
  Curl().easy_setopt(curl_, CURLOPT_HEADERFUNCTION, OnHeader);
  Curl().easy_setopt(curl_, CURLOPT_HEADERDATA, this);
  Curl().easy_setopt(curl_, CURLOPT_WRITEFUNCTION, OnBody);
  Curl().easy_setopt(curl_, CURLOPT_WRITEDATA, this);
  Curl().easy_setopt(curl_, CURLOPT_NOPROGRESS, 0L);
  Curl().easy_setopt(curl_, CURLOPT_XFERINFOFUNCTION, OnProgress);
  Curl().easy_setopt(curl_, CURLOPT_XFERINFODATA, this);
}

// libcurl's own rule for stalled transfers would also count the time in which a server processes
// what it received, so Stalls() replaces it.
void HttpTransfer::SetBody() {
  Curl().easy_setopt(curl_, CURLOPT_UPLOAD, 1L);
  Curl().easy_setopt(curl_, CURLOPT_UPLOAD_BUFFERSIZE, kUploadBuffer);
  const uint64_t size = request_.body ? request_.body->size : 0;
  Curl().easy_setopt(curl_, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(size));
  Curl().easy_setopt(curl_, CURLOPT_READFUNCTION, OnRead);
  Curl().easy_setopt(curl_, CURLOPT_READDATA, this);
  Curl().easy_setopt(curl_, CURLOPT_SEEKFUNCTION, OnSeek);
  Curl().easy_setopt(curl_, CURLOPT_SEEKDATA, this);
  Curl().easy_setopt(curl_, CURLOPT_LOW_SPEED_TIME, 0L);
}

void HttpTransfer::SetTls() {
  if (!settings_.ca_text.empty()) {
    // libcurl only reads it.
    curl_blob blob = {const_cast<char*>(settings_.ca_text.data()), settings_.ca_text.size(),
                      CURL_BLOB_NOCOPY};
    Curl().easy_setopt(curl_, CURLOPT_CAINFO_BLOB, &blob);
  }
  if (!settings_.client_cert.empty())
    Curl().easy_setopt(curl_, CURLOPT_SSLCERT, settings_.client_cert.c_str());
  if (!settings_.client_key.empty()) {
    Curl().easy_setopt(curl_, CURLOPT_SSLKEY, settings_.client_key.c_str());
    // Without a password OpenSSL asks on the terminal, for every connection.
    Curl().easy_setopt(curl_, CURLOPT_KEYPASSWD, "");
  }
  if (!settings_.insecure) return;
  Curl().easy_setopt(curl_, CURLOPT_SSL_VERIFYPEER, 0L);
  Curl().easy_setopt(curl_, CURLOPT_SSL_VERIFYHOST, 0L);
}

void HttpTransfer::SetRequest() {
  Curl().easy_setopt(curl_, CURLOPT_URL, request_.url.Text().c_str());
  Curl().easy_setopt(curl_, CURLOPT_NOBODY, request_.method == "HEAD" ? 1L : 0L);
  sends_ = SendsBody(request_);
  if (sends_) SetBody();
  if (request_.method != "GET" && request_.method != "HEAD")
    Curl().easy_setopt(curl_, CURLOPT_CUSTOMREQUEST, request_.method.c_str());
  // Requests to this machine do not go through a proxy, which would send them elsewhere.
  if (request_.url.IsLoopback()) Curl().easy_setopt(curl_, CURLOPT_NOPROXY, "*");
  const auto add = [&](const std::string& line) {
    headers_ = Curl().slist_append(headers_, line.c_str());
  };
  add("Accept-Encoding: identity");
  for (const std::string& line : request_.headers) add(line);
  if (!request_.authorization.empty()) add(Cat("Authorization: ", request_.authorization));
  if (request_.aws) {
    const AwsSignature& aws = *request_.aws;
    // The digest of an empty body, which S3 requires.
    add("x-amz-content-sha256: "
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    if (!aws.session_token.empty()) add(Cat("x-amz-security-token: ", aws.session_token));
    Curl().easy_setopt(curl_, CURLOPT_USERNAME, aws.key.c_str());
    Curl().easy_setopt(curl_, CURLOPT_PASSWORD, aws.secret.c_str());
    Curl().easy_setopt(curl_, CURLOPT_AWS_SIGV4, Cat("aws:amz:", aws.region, ":s3").c_str());
  }
  if (!request_.url.user.empty()) {
    Curl().easy_setopt(curl_, CURLOPT_USERNAME, request_.url.user.c_str());
    Curl().easy_setopt(curl_, CURLOPT_PASSWORD, request_.url.password.c_str());
    Curl().easy_setopt(curl_, CURLOPT_HTTPAUTH, static_cast<long>(CURLAUTH_BASIC));
  }
  Curl().easy_setopt(curl_, CURLOPT_HTTPHEADER, headers_);
}

size_t HttpTransfer::OnHeader(char* data, size_t size, size_t count, void* self) {
  const std::string_view line(data, size * count);
  return static_cast<HttpTransfer*>(self)->TakeHeader(line) ? line.size() : 0;
}

size_t HttpTransfer::OnBody(char* data, size_t size, size_t count, void* self) {
  const std::string_view bytes(data, size * count);
  return static_cast<HttpTransfer*>(self)->TakeBody(bytes) ? bytes.size() : 0;
}

size_t HttpTransfer::OnRead(char* out, size_t size, size_t count, void* self) {
  return static_cast<HttpTransfer*>(self)->GiveBody(
      std::as_writable_bytes(std::span(out, size * count)));
}

int HttpTransfer::OnSeek(void* self, curl_off_t offset, int origin) {
  if (origin != SEEK_SET || offset < 0) return CURL_SEEKFUNC_CANTSEEK;
  static_cast<HttpTransfer*>(self)->given_ = static_cast<uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

int HttpTransfer::OnProgress(void* self, curl_off_t, curl_off_t, curl_off_t, curl_off_t sent) {
  const bool stop = InterruptRequested().load(std::memory_order_relaxed) ||
                    static_cast<HttpTransfer*>(self)->Stalls(static_cast<uint64_t>(sent));
  return stop ? 1 : 0;
}

size_t HttpTransfer::GiveBody(std::span<std::byte> out) {
  if (!request_.body || given_ >= request_.body->size) return 0;
  out = out.first(std::min<uint64_t>(out.size(), request_.body->size - given_));
  if (const Status read = request_.body->read(given_, out); !read) {
    end_.error = read.error();
    return CURL_READFUNC_ABORT;
  }
  given_ += out.size();
  return out.size();
}

// Returns whether a body is sent too slowly, or its answer takes too long. Connecting has its own
// limit.
bool HttpTransfer::Stalls(uint64_t sent) {
  if (!sends_) return false;
  const bool all = sent >= (request_.body ? request_.body->size : 0);
  const auto now = std::chrono::steady_clock::now();
  const auto least = static_cast<uint64_t>(settings_.stall_bytes * settings_.stall_seconds);
  const bool begins = window_.since == std::chrono::steady_clock::time_point() || sent == 0;
  if (begins && !all) window_ = {now, sent, false};
  if (all != window_.all || sent < window_.sent || sent - window_.sent >= least)
    window_ = {now, sent, all};
  const std::chrono::seconds limit(all ? settings_.answer_seconds : settings_.stall_seconds);
  stalled_ = now - window_.since > limit;
  return stalled_;
}

// A status line starts a new answer: there may be several of 100 to 199 before the last.
bool HttpTransfer::TakeHeader(std::string_view line) {
  HttpReply& reply = end_.reply;
  header_bytes_ += line.size();
  if (header_bytes_ > kMostHeaderBytes) {
    end_.error = Error{Code::kIo, Cat(request_.name, ": header of the answer: expected at most ",
                                      kMostHeaderBytes, " bytes, found more")};
    return false;
  }
  const std::string_view text = Trimmed(line);
  if (line.starts_with("HTTP/")) {
    reply.fields.clear();
    answered_ = false;
    const size_t blank = text.find(' ');
    const auto status =
        ParseUint(blank == text.npos ? std::string_view() : text.substr(blank + 1, 3));
    reply.status = static_cast<int>(status.value_or(0));
    reply.end_is_marked = !line.starts_with("HTTP/1");
    return true;
  }
  if (!text.empty()) {
    const size_t colon = std::min(text.find(':'), text.size() - 1);
    reply.fields.emplace_back(Lower(text.substr(0, colon)), Trimmed(text.substr(colon + 1)));
    return true;
  }
  reply.end_is_marked = reply.end_is_marked || !reply.Field("content-length").empty() ||
                        reply.Field("transfer-encoding") == "chunked";
  answered_ = reply.status >= 200;
  if (!IsValue()) return true;
  const Status begun = sink_.Begin(reply);
  if (!begun) end_.error = begun.error();
  return begun.has_value();
}

// A refusal counts, whatever happens to its body or to the one being sent: servers then close the
// connection, and some state a wrong length.
bool HttpTransfer::IsRefusal() const { return answered_ && end_.reply.status >= 300; }

bool HttpTransfer::TakeBody(std::string_view bytes) {
  end_.bytes += bytes.size();
  if (IsValue()) {
    const Status taken = sink_.Take(std::as_bytes(std::span(bytes)));
    if (!taken) end_.error = taken.error();
    return taken.has_value();
  }
  std::string& body = end_.reply.body;
  body.append(bytes.substr(0, kMostErrorBody - body.size()));
  enough_ = body.size() >= kMostErrorBody;
  return !enough_;
}

Error HttpTransfer::Failure(CURLcode code) const {
  std::string reason = reason_[0] != '\0' ? reason_ : Curl().easy_strerror(code);
  if (stalled_) {
    reason = window_.all ? Cat("no answer for ", settings_.answer_seconds, " s after the last byte")
                         : Cat("the server took less than ", settings_.stall_bytes, " bytes/s for ",
                               settings_.stall_seconds, " s");
  }
  return {IsUnreachable(code) ? Code::kUnavailable : Code::kIo,
          Cat(request_.name, ": ", request_.url.host, ": ", Shown(reason)),
          FailureHint(code, curl_)};
}

TransferEnd HttpTransfer::Run() {
  SetTransport();
  SetRequest();
  const CURLcode code = Curl().easy_perform(curl_);
  if (InterruptRequested().load(std::memory_order_relaxed)) {
    end_.error = CheckInterrupt().error();
    end_.transient = false;
  } else if (code != CURLE_OK && !end_.error && !enough_ && !IsRefusal()) {
    end_.error = Failure(code);
    end_.transient = !IsLasting(code);
  }
  return std::move(end_);
}

}  // namespace moepack::remote
