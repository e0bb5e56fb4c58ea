// The parts of S3 that moepack uses, on a FaultServer: one bucket, "bucket", whose objects are
// listed in pages and read by range, with the signature checked.
#pragma once

#include <string>

#include "tests/remote/support/fault_server.h"

namespace moepack::remote {

class FakeS3 {
 public:
  FakeS3();

  std::string endpoint() const { return server_.origin(); }
  void Add(const std::string& key, std::string bytes);
  // Below `prefix` ("models/x/").
  void AddDirectory(const std::string& prefix, const std::string& directory);
  // Sees the reply that S3 would give and may change it.
  void SetFault(FaultServer::Fault fault);
  FaultServer& server() { return server_; }

  size_t page_size = 2;
  struct Account {
    std::string key, secret;  // that requests are signed with; "" for anonymous ones
    std::string session_token;
    std::string region = "us-east-1";  // of the bucket: requests signed for another are told
  };
  void Change(const std::function<void(Account& account)>& change);

 private:
  void Answer(const FakeRequest& request, FakeAnswer& answer);
  FakeAnswer List(const FakeRequest& request);

  std::mutex mutex_;
  struct Object {
    size_t size = 0;
    std::string etag;
  };
  Account account_;
  std::map<std::string, Object> objects_;
  FaultServer::Fault fault_;
  FaultServer server_;
};

// S3's reply for an error.
FakeAnswer S3Error(int status, const std::string& code);
// The expected signature, version 4, of `request`, whose own signature lists the signed headers.
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
std::string SignatureOf(const FakeRequest& request, const std::string& region,
                        const std::string& secret);

}  // namespace moepack::remote
