// A fake registry and blobs that are sent to it.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/server/registry_client.h"
#include "manifest/registry/server/upload.h"
#include "tests/remote/support/fake_registry.h"
#include "tests/remote/support/no_credentials.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::registry {

// Has a value until the registry refuses it, and then the next one.
class ListedCredentials final : public Authorizer {
 public:
  explicit ListedCredentials(std::vector<std::string> values) : values_(std::move(values)) {}
  Result<std::string> HeaderFor(const std::vector<std::string>& scopes) override {
    const std::lock_guard lock(mutex_);
    scopes_.insert(scopes_.end(), scopes.begin(), scopes.end());
    return values_[at_];
  }
  Result<bool> Refused(const remote::HttpReply&, const std::vector<std::string>&,
                       const std::string& used) override {
    const std::lock_guard lock(mutex_);
    if (used != values_[at_]) return true;  // another thread was first
    if (at_ + 1 == values_.size()) return false;
    ++at_;
    return true;
  }
  std::string Shown() const override { return "credentials of the test (user u)"; }
  std::vector<std::string> scopes() const {
    const std::lock_guard lock(mutex_);
    return scopes_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> values_, scopes_;
  size_t at_ = 0;
};

class UploadTestBase : public testing::Test {
 protected:
  static std::string Bytes(size_t size, char seed = 0) {
    std::string text(size, '\0');
    for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(seed + i * 31 % 251);
    return text;
  }
  static BlobRecord BlobOf(const std::string& bytes) {
    return {kWeightType, DigestOf(Sha256Hex(bytes)), bytes.size(), {{kPathKey, "groups/1"}}};
  }
  RegistryClient Client(const std::string& repository = "a/b") {
    remote::HttpSettings settings = remote::QuickSettings();
    settings.warn = [this](const std::string& text) {
      const std::lock_guard lock(mutex_);
      warnings_.push_back(text);
    };
    return {remote::QuickClient(settings),
            ParseRepository(Cat(registry_.host(), "/", repository), false).value(), credentials_};
  }
  // "sent", or the error.
  std::string Upload(const std::string& bytes, UploadOptions options = {}) {
    const RegistryClient client = Client();
    Uploader uploader(client, std::move(options));
    return Upload(uploader, bytes);
  }
  std::string Upload(Uploader& uploader, const std::string& bytes) {
    const MemorySource source("file", bytes);
    const auto added = uploader.Upload(source, BlobOf(bytes), {});
    if (added) return added->how;
    code_ = added.error().code;
    hint_ = added.error().hint;
    return added.error().message;
  }
  bool Has(const std::string& bytes) const { return registry_.HasBlob("a/b", bytes); }

  remote::FakeRegistry registry_;
  AuthorizerPtr credentials_ = std::make_shared<NoCredentials>();
  std::mutex mutex_;
  std::vector<std::string> warnings_;
  Code code_ = Code::kInvalidArgument;
  std::string hint_;
};

}  // namespace moepack::registry
