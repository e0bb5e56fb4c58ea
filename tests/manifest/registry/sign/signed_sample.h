// A set and its two views in a store in memory, together with other manifests.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/sign/sign.h"
#include "manifest/registry/sign/verify_signatures.h"
#include "tests/manifest/registry/sign/memory_store.h"
#include "tests/manifest/registry/sign/sample_keys.h"

namespace moepack::registry {

class SignedSample : public testing::Test {
 protected:
  SignedSample() {
    set_ = Put("v1", "");
    views_ = {Put("v1-g000", set_), Put("v1-g001", set_)};
    other_ = Put("v2", "");
    store_.tags["stable-g001"] = store_.tags["v1-g001"];
    foreign_ = store_.PutManifest(
        "app", AddSignature(nullptr, "an image like any other", "x").manifest.text);
  }
  // A manifest of ModelPack; a view of `set` unless that is "".
  std::string Put(const std::string& tag, const std::string& set) {
    OciManifest oci;
    oci.config = {kConfigType, DigestOf(std::string(64, '0')), 2};
    oci.annotations = {{kSchemaKey, kSetSchema}, {"tag", tag}};
    if (!set.empty()) {
      oci.annotations[kViewOfKey] = set;
      oci.annotations[kViewGroupKey] = tag.substr(tag.rfind("-g") + 2);
    }
    return store_.PutManifest(tag, WriteOciManifest(oci));
  }
  Result<std::vector<SignedManifest>> SignIt(const PrivateKey& key, bool views = true,
                                             const std::string& identity = "localhost/model") {
    return Sign(store_, {"v1", store_.tags.at("v1")}, key, {identity, views});
  }
  void MustSign(const PrivateKey& key) {
    const auto done = SignIt(key);
    ASSERT_TRUE(done) << done.error().message;
  }
  // The message of a verification that is expected to fail.
  std::string Refusal(const std::vector<PublicKey>& keys) { return Refusal(keys, set_); }
  std::string Refusal(const std::vector<PublicKey>& keys, const std::string& digest) {
    const auto report = VerifySignatures(store_, digest, keys);
    if (report) return "no error";
    EXPECT_EQ(report.error().code, Code::kMismatch) << report.error().message;
    return report.error().message;
  }
  std::string SignatureText() const { return store_.TextOf(SignatureTag(set_)); }
  OciManifest Signatures() const { return ParseSignatureManifest("it", SignatureText()).value(); }
  void SetSignatures(const OciManifest& oci) {
    store_.PutManifest(SignatureTag(set_), WriteOciManifest(oci));
  }

  MemoryStore store_;
  std::string set_, other_, foreign_;  // digests
  std::vector<std::string> views_;
  const PrivateKey key_ = NewKey();
};

}  // namespace moepack::registry
