#include "tests/remote/support/fake_s3.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <filesystem>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/url.h"

namespace moepack::remote {
namespace {

std::string Hmac(const std::string& key, const std::string& text) {
  unsigned char out[32];
  unsigned size = sizeof(out);
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), out, &size);
  return {reinterpret_cast<char*>(out), size};
}

// The value of NAME=value in "AWS4-HMAC-SHA256 Credential=..., SignedHeaders=..., Signature=...".
std::string Part(const std::string& authorization, const std::string& name) {
  const size_t at = authorization.find(name + "=");
  if (at == std::string::npos) return "";
  const size_t from = at + name.size() + 1;
  return authorization.substr(from, authorization.find_first_of(", ", from) - from);
}

std::string QueryValue(const std::string& query, const std::string& name) {
  for (const std::string& part : Split(query, '&')) {
    if (part.starts_with(name + "=")) return DecodePercent(part.substr(name.size() + 1));
  }
  return "";
}

}  // namespace

FakeAnswer S3Error(int status, const std::string& code) {
  FakeAnswer answer = Plain(status, Cat("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>",
                                        code, "</Code><Message>m</Message></Error>"));
  answer.Set("Content-Type", "application/xml");
  return answer;
}

std::string SignatureOf(const FakeRequest& request, const std::string& region,
                        const std::string& secret) {
  const std::string authorization = request.Field("authorization");
  const std::string names = Part(authorization, "SignedHeaders");
  std::string headers;
  for (const std::string& name : Split(names, ';'))
    headers += Cat(name, ":", request.Field(name), "\n");
  const std::string canonical =
      Cat(request.method, "\n", EncodePath(request.path), "\n", request.query, "\n", headers, "\n",
          names, "\n", request.Field("x-amz-content-sha256"));
  const std::string time = request.Field("x-amz-date"), day = time.substr(0, 8);
  const std::string scope = Cat(day, "/", region, "/s3/aws4_request");
  const std::string text = Cat("AWS4-HMAC-SHA256\n", time, "\n", scope, "\n", Sha256Hex(canonical));
  std::string key = "AWS4" + secret;
  for (const std::string& step : {day, region, std::string("s3"), std::string("aws4_request")})
    key = Hmac(key, step);
  const std::string signature = Hmac(key, text);
  return Hex(reinterpret_cast<const unsigned char*>(signature.data()), signature.size());
}

FakeS3::FakeS3() {
  server_.SetFault([this](const FakeRequest& request, FakeAnswer& answer) {
    Answer(request, answer);
    FaultServer::Fault fault;
    {
      const std::lock_guard lock(mutex_);
      fault = fault_;
    }
    if (fault) fault(request, answer);
  });
}

void FakeS3::Add(const std::string& object, std::string bytes) {
  const std::lock_guard lock(mutex_);
  objects_[object] = {bytes.size(), FaultServer::EtagOf(bytes)};
  server_.Add("/bucket/" + object, std::move(bytes));
}

void FakeS3::AddDirectory(const std::string& prefix, const std::string& directory) {
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    if (!entry.is_regular_file()) continue;
    Add(prefix + entry.path().filename().string(), fixtures::ReadFile(entry.path()));
  }
}

void FakeS3::SetFault(FaultServer::Fault fault) {
  const std::lock_guard lock(mutex_);
  fault_ = std::move(fault);
}

FakeAnswer FakeS3::List(const FakeRequest& request) {
  const std::string prefix = QueryValue(request.query, "prefix");
  const std::string from = QueryValue(request.query, "continuation-token");
  std::string xml = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult xmlns=\"x\">";
  size_t count = 0;
  std::string next;
  for (const auto& [object, known] : objects_) {
    if (!object.starts_with(prefix) || object < from) continue;
    if (object.find('/', prefix.size()) != std::string::npos) continue;
    if (count++ == page_size) next = object;
    if (count > page_size) continue;
    std::string escaped;
    for (const char c : object) escaped += c == '&' ? std::string("&amp;") : std::string(1, c);
    const std::string digits = known.etag.substr(1, known.etag.size() - 2);
    xml += Cat("<Contents><Key>", escaped, "</Key><ETag>&quot;", digits, "&quot;</ETag><Size>",
               known.size, "</Size></Contents>");
  }
  xml += Cat("<IsTruncated>", next.empty() ? "false" : "true", "</IsTruncated>");
  if (!next.empty()) xml += Cat("<NextContinuationToken>", next, "</NextContinuationToken>");
  FakeAnswer answer = Plain(200, xml + "</ListBucketResult>");
  answer.Set("Content-Type", "application/xml");
  return answer;
}

void FakeS3::Change(const std::function<void(Account& account)>& change) {
  const std::lock_guard lock(mutex_);
  change(account_);
}

void FakeS3::Answer(const FakeRequest& request, FakeAnswer& answer) {
  const std::lock_guard lock(mutex_);
  const std::string authorization = request.Field("authorization");
  if (!account_.key.empty()) {
    const bool known = Part(authorization, "Credential").starts_with(account_.key + "/");
    const bool token = request.Field("x-amz-security-token") == account_.session_token;
    const bool right =
        Part(authorization, "Signature") == SignatureOf(request, account_.region, account_.secret);
    const std::vector<std::string> scope = Split(Part(authorization, "Credential"), '/');
    if (scope.size() > 2 && scope[2] != account_.region) {
      answer = S3Error(301, "PermanentRedirect");
      answer.Set("x-amz-bucket-region", account_.region);
      return;
    }
    if (authorization.empty())
      answer = S3Error(403, "AccessDenied");
    else if (!known)
      answer = S3Error(403, "InvalidAccessKeyId");
    else if (!right || !token)
      answer = S3Error(403, "SignatureDoesNotMatch");
    if (answer.status == 403) return;
  }
  if (request.path == "/bucket")
    answer = List(request);
  else if (!request.path.starts_with("/bucket/"))
    answer = S3Error(404, "NoSuchBucket");
  else if (answer.status == 404)
    answer = S3Error(404, "NoSuchKey");
}

}  // namespace moepack::remote
