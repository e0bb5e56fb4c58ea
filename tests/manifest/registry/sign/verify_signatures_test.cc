#include "manifest/registry/sign/verify_signatures.h"

#include <gmock/gmock.h>

#include "tests/manifest/registry/sign/signed_sample.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

class VerifyingSignatures : public SignedSample {
 protected:
  // Replaces the payload of the first signature, which `key` signs again.
  void SetPayload(const std::string& payload, const PrivateKey& key) {
    const SignatureBlobs blobs = AddSignature(nullptr, payload, *key.Sign(payload));
    store_.Put(blobs.payload.blob.digest, payload);
    store_.PutManifest(SignatureTag(set_), blobs.manifest.text);
  }
  const std::vector<PublicKey> keys_ = {NewKey().public_key(), key_.public_key()};
};

TEST_F(VerifyingSignatures, SaysWhichKeySigned) {
  const PrivateKey second = NewKey(KeyType::kEd25519);
  MustSign(key_);
  MustSign(second);
  const auto report = VerifySignatures(store_, set_, {second.public_key(), keys_[0], keys_[1]});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->digest, set_);
  EXPECT_EQ(report->found, 2u);
  ASSERT_EQ(report->good.size(), 2u);
  EXPECT_EQ(report->good[0].key_id, key_.public_key().id());
  EXPECT_EQ(report->good[0].key_type, KeyType::kP256);
  EXPECT_EQ(report->good[1].key_id, second.public_key().id());
  EXPECT_EQ(report->good[1].key_type, KeyType::kEd25519);
  EXPECT_EQ(report->good[1].payload_digest, Signatures().layers[1].digest);
}

TEST_F(VerifyingSignatures, AMissingSignatureIsAMismatch) {
  EXPECT_EQ(Refusal(keys_),
            "memory: no valid signature for " + set_ + " by any of 2 keys (no signature found)");
  EXPECT_THAT(Refusal({key_.public_key()}), HasSubstr(" by new key (no signature found)"));
}

TEST_F(VerifyingSignatures, RejectsASignatureByAnUnknownKey) {
  MustSign(NewKey());
  EXPECT_EQ(Refusal(keys_), "memory: no valid signature for " + set_ +
                                " by any of 2 keys (1 signature found, key unknown)");
  MustSign(NewKey(KeyType::kEd25519));
  EXPECT_THAT(Refusal(keys_), HasSubstr("(2 signatures found, key unknown)"));
  MustSign(key_);
  EXPECT_EQ(Refusal(keys_), "no error");
}

// The signatures of one manifest under the tag of another.
TEST_F(VerifyingSignatures, RejectsASignatureOfAnotherManifest) {
  MustSign(key_);
  store_.tags[SignatureTag(other_)] = store_.tags[SignatureTag(set_)];
  EXPECT_THAT(Refusal(keys_, other_), HasSubstr("(1 signature found, signs " + set_ + ")"));
}

TEST_F(VerifyingSignatures, RejectsAnotherTypeOfPayload) {
  std::string payload = WritePayload({"localhost/model", set_});
  payload.replace(payload.find("cosign"), 6, "atomic");
  SetPayload(payload, key_);
  EXPECT_THAT(Refusal(keys_), HasSubstr("(1 signature found, signs something else)"));
  SetPayload("some bytes", key_);
  EXPECT_THAT(Refusal(keys_), HasSubstr("(1 signature found, signs something else)"));
}

TEST_F(VerifyingSignatures, RejectsAChangedPayload) {
  MustSign(key_);
  OciManifest oci = Signatures();
  const std::string digest = oci.layers[0].digest;
  const std::string payload = store_.texts[digest];
  // Other bytes under the stated digest.
  std::string other = payload;
  other.replace(other.find("localhost"), 9, "remotemac");
  store_.Put(digest, other);
  EXPECT_THAT(Refusal(keys_), HasSubstr("(1 signature found, payload missing or corrupt)"));
  store_.texts.erase(digest);
  EXPECT_THAT(Refusal(keys_), HasSubstr("(1 signature found, payload missing or corrupt)"));
  // Other bytes under their own digest.
  const TextBlob blob = MakeBlob(kPayloadType, other);
  store_.Put(blob.blob.digest, other);
  oci.layers[0].digest = blob.blob.digest;
  SetSignatures(oci);
  EXPECT_THAT(Refusal(keys_), HasSubstr("(1 signature found, key unknown)"));
}

TEST_F(VerifyingSignatures, RejectsChangedSignatures) {
  MustSign(key_);
  const OciManifest good = Signatures();
  const std::string text = good.layers[0].annotations.at(kSignatureKey);
  for (const std::string& other : std::vector<std::string>{"", "AAAA", "MEUCIQD/", text.substr(4),
                                                           text.substr(0, text.size() - 4)}) {
    OciManifest oci = good;
    oci.layers[0].annotations[kSignatureKey] = other;
    SetSignatures(oci);
    EXPECT_THAT(Refusal(keys_), HasSubstr("(1 signature found, key unknown)")) << other;
  }
  for (const std::string& other : {text.substr(1), text + "=", "%" + text.substr(1)}) {
    OciManifest oci = good;
    oci.layers[0].annotations[kSignatureKey] = other;
    SetSignatures(oci);
    EXPECT_THAT(Refusal(keys_), HasSubstr("(1 signature found, not base64)")) << other;
  }
}

TEST_F(VerifyingSignatures, IgnoresDamageBesideAGoodSignature) {
  MustSign(key_);
  OciManifest oci = Signatures();
  BlobRecord bad = oci.layers[0];
  bad.annotations[kSignatureKey] = "*";
  BlobRecord huge = oci.layers[0];
  huge.size = kMaxPayload + 1;
  BlobRecord absent = oci.layers[0];
  absent.digest = DigestOf(std::string(64, '9'));
  oci.layers.insert(oci.layers.begin(), {bad, huge, absent});
  SetSignatures(oci);
  const auto report = VerifySignatures(store_, set_, keys_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->found, 4u);
  EXPECT_EQ(report->good.size(), 1u);
}

TEST_F(VerifyingSignatures, AnInvalidManifestIsAMismatch) {
  for (const char* text : {"", "{}", "[", "7"}) {
    store_.PutManifest(SignatureTag(set_), text);
    EXPECT_THAT(Refusal(keys_), HasSubstr(" by any of 2 keys (memory: manifest sha256-")) << text;
  }
  store_.tags[SignatureTag(set_)] = store_.tags["v2"];
  EXPECT_THAT(Refusal(keys_), HasSubstr("config: mediaType: expected "));
  store_.tags[SignatureTag(set_)].digest = DigestOf(std::string(64, '9'));
  EXPECT_THAT(Refusal(keys_), HasSubstr("(memory: no manifest sha256:9"));
}

// It is then unknown whether it is signed.
TEST_F(VerifyingSignatures, AnUnavailableStoreIsReportedAsSuch) {
  store_.outage = true;
  const auto report = VerifySignatures(store_, set_, keys_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace moepack::registry
