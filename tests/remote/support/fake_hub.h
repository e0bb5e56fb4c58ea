// The parts of the Hugging Face Hub that moepack uses, on a FaultServer: one repository,
// owner/model, whose large files are on a second server with signed addresses.
#pragma once

#include <functional>
#include <mutex>
#include <string>

#include "tests/remote/support/fault_server.h"

namespace moepack::remote {

class FakeHub {
 public:
  FakeHub();

  std::string endpoint() const { return hub_.origin(); }
  void Add(const std::string& file, std::string bytes, bool large);
  // Files that end in .safetensors or .gguf are large.
  void AddDirectory(const std::string& directory);
  // Sees the reply that the Hub would give and may change it.
  void SetFault(FaultServer::Fault fault);
  // A signed address is refused after that many requests.
  void LetSignaturesServe(int requests);
  // Changes `commit`, as a push does, when requests have been served already.
  void Push(const std::string& new_commit);

  FaultServer& hub() { return hub_; }
  FaultServer& cdn() { return cdn_; }

  std::string commit = "0123456789abcdef0123456789abcdef01234567";
  std::string id = "owner/model";
  std::string token;     // the required token, "" for none
  size_t page_size = 2;  // of lists of files

 private:
  struct File {
    std::string bytes;
    bool large = false;
  };
  void Answer(const FakeRequest& request, FakeAnswer& answer);
  FakeAnswer List(const FakeRequest& request);
  FakeAnswer Resolve(const std::string& file);
  void CheckSignature(const FakeRequest& request, FakeAnswer& answer);

  std::mutex mutex_;
  std::map<std::string, File> files_;
  FaultServer::Fault fault_;
  struct Signature {
    int number = 0, left = 0;
  };
  std::map<std::string, Signature> signatures_;  // by path on the second server
  int serve_ = 1 << 30;
  FaultServer hub_, cdn_;
};

}  // namespace moepack::remote
