// The Hugging Face Hub as far as moepack asks it, on a FaultServer: one repository, owner/model,
// whose large files are at a second server with addresses that are signed.
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
  // Large are those that end in .safetensors or .gguf.
  void AddDirectory(const std::string& directory);
  // Sees the answer that the Hub would give and may change it.
  void SetFault(FaultServer::Fault fault);
  // A signed address is refused after so many requests.
  void LetSignaturesServe(int requests);

  FaultServer& hub() { return hub_; }
  FaultServer& cdn() { return cdn_; }

  std::string commit = "0123456789abcdef0123456789abcdef01234567";
  std::string id = "owner/model";
  std::string token;     // that is asked for, "" for none
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
  std::map<std::string, Signature> signatures_;  // by paths at the second server
  int serve_ = 1 << 30;
  FaultServer hub_, cdn_;
};

}  // namespace moepack::remote
