#include "manifest/registry/sign/sign.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/manifest/registry/sign/signed_sample.h"

namespace moepack::registry {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Signing : public SignedSample {};

std::vector<std::string> TagsOf(const std::vector<SignedManifest>& all) {
  std::vector<std::string> tags;
  for (const SignedManifest& one : all) tags.push_back(one.tag);
  return tags;
}

// Views are found by their annotations; each is signed once, whatever its tags are, and named by
// the one that belongs to the tag of the set.
TEST_F(Signing, SignsASetWithItsViews) {
  const auto done = SignIt(key_);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(TagsOf(*done), ElementsAre("v1", "v1-g000", "v1-g001"));
  for (const SignedManifest& one : *done) EXPECT_FALSE(one.was_signed);
  for (const std::string& digest : {set_, views_[0], views_[1]}) {
    const auto report = VerifySignatures(store_, digest, {key_.public_key()});
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->good[0].identity, "localhost/model");
  }
  EXPECT_FALSE(VerifySignatures(store_, other_, {key_.public_key()}));
  EXPECT_FALSE(VerifySignatures(store_, foreign_, {key_.public_key()}));
  EXPECT_EQ(store_.writes, 1);
}

TEST_F(Signing, SignsOnlyTheSetWithoutViews) {
  const auto done = SignIt(key_, false);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(TagsOf(*done), ElementsAre("v1"));
  EXPECT_FALSE(VerifySignatures(store_, views_[0], {key_.public_key()}));
}

TEST_F(Signing, SignsADigestWithoutATag) {
  const auto done = Sign(store_, {"", {"", views_[1], 0}}, key_, {"localhost/model", true});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->size(), 1u);
  EXPECT_TRUE(VerifySignatures(store_, views_[1], {key_.public_key()}));
}

// ECDSA signatures differ each time, so they are compared by verifying them.
TEST_F(Signing, AKeySignsOnlyOnce) {
  for (const KeyType type : {KeyType::kP256, KeyType::kEd25519}) {
    const PrivateKey key = NewKey(type);
    MustSign(key);
    const auto before = store_.tags;
    const auto again = SignIt(key);
    ASSERT_TRUE(again) << again.error().message;
    for (const SignedManifest& one : *again) EXPECT_TRUE(one.was_signed);
    EXPECT_EQ(store_.tags.size(), before.size());
    for (const auto& [tag, blob] : before) EXPECT_EQ(store_.tags[tag].digest, blob.digest);
  }
  EXPECT_EQ(Signatures().layers.size(), 2u);
  ASSERT_TRUE(SignIt(key_, true, "localhost/other"));
  ASSERT_TRUE(SignIt(key_, true, "localhost/model"));
  EXPECT_EQ(Signatures().layers.size(), 4u);
}

TEST_F(Signing, APlanWritesNothing) {
  const auto before = store_.texts;
  const auto plan =
      PlanSigning(store_, {"v1", store_.tags.at("v1")}, key_.public_key(), {"localhost/x", true});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_EQ(plan->size(), 3u);
  EXPECT_EQ((*plan)[0].signature_tag, SignatureTag(set_));
  EXPECT_EQ(store_.texts, before);
  EXPECT_EQ(store_.writes, 0);
}

TEST_F(Signing, RefusesToSignDamagedOrMissingManifests) {
  store_.texts[set_] += " ";
  const auto damaged = SignIt(key_);
  ASSERT_FALSE(damaged);
  EXPECT_EQ(damaged.error().code, Code::kCorrupt);
  store_.texts.erase(set_);
  EXPECT_EQ(SignIt(key_).error().code, Code::kNotFound);
  EXPECT_EQ(store_.writes, 0);
}

TEST_F(Signing, RefusesABlobThatIsNotAManifest) {
  const std::string text = R"({"format":"moepack-distribution"})";
  const std::string digest = DigestOf(Sha256Hex(text));
  store_.Put(digest, text);
  const auto done = Sign(store_, {"", {"", digest, 0}}, key_, {"localhost/model", true});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kCorrupt);
  EXPECT_THAT(done.error().message, HasSubstr("expected a manifest or an index"));
  EXPECT_EQ(store_.writes, 0);
}

TEST_F(Signing, RefusesAnInvalidIdentity) {
  const auto done = SignIt(key_, true, "v1");
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kInvalidArgument);
  EXPECT_EQ(store_.writes, 0);
}

// Unreadable content is not overwritten: it may be somebody's signatures.
TEST_F(Signing, KeepsUnreadableSignatures) {
  store_.PutManifest(SignatureTag(set_), "{}");
  const auto done = SignIt(key_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kCorrupt);
  EXPECT_THAT(done.error().message, HasSubstr("memory: manifest sha256-"));
  EXPECT_EQ(SignatureText(), "{}");
}

TEST_F(Signing, LeavesAFullManifestAlone) {
  MustSign(NewKey());
  OciManifest oci = Signatures();
  oci.layers.resize(kMaxSignatures, oci.layers[0]);
  SetSignatures(oci);
  const auto done = SignIt(key_);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("signatures: expected room for one more, found 100"));
}

TEST_F(Signing, NamesViewsByTheTagOfTheSetThatWasNamed) {
  for (const char* group : {"000", "001"})
    store_.tags[Cat("v1-o1-g", group)] = store_.tags.at(Cat("v1-g", group));
  store_.tags["v1-o1"] = store_.tags["v1"];
  const auto done = Sign(store_, {"v1-o1", store_.tags.at("v1")}, key_, {"localhost/model", true});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_THAT(TagsOf(*done), ElementsAre("v1-o1", "v1-o1-g000", "v1-o1-g001"));
  store_.tags.erase("v1-o1-g000");
  const auto plan = PlanSigning(store_, {"v1-o1", store_.tags.at("v1")}, key_.public_key(),
                                {"localhost/x", true});
  ASSERT_TRUE(plan) << plan.error().message;
  EXPECT_THAT(TagsOf(*plan), ElementsAre("v1-o1", "v1-g000", "v1-o1-g001"));
}

// Somebody else signs the set as if nobody had signed it before.
class SigningAtOnce : public Signing {
 protected:
  void TheySign() {
    store_.Put(blobs_.payload.blob.digest, blobs_.payload.text);
    store_.PutManifest(SignatureTag(set_), blobs_.manifest.text);
  }
  // Nothing is written for views, so that there is one write for each try.
  void SignAndExpectBoth() {
    const auto done = SignIt(key_, false);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(VerifySignatures(store_, set_, {key_.public_key()}));
    EXPECT_TRUE(VerifySignatures(store_, set_, {theirs_.public_key()}));
    EXPECT_EQ(Signatures().layers.size(), 2u);
    EXPECT_EQ(store_.writes, 2);
  }

  const PrivateKey theirs_ = NewKey();
  const std::string payload_ = WritePayload({"localhost/model", set_});
  const SignatureBlobs blobs_ = AddSignature(nullptr, payload_, *theirs_.Sign(payload_));
};

// They read before we wrote, and write after us.
TEST_F(SigningAtOnce, KeepsASignatureThatOverwritesOurs) {
  store_.after_write = [&] {
    if (store_.writes == 1) TheySign();
  };
  SignAndExpectBoth();
}

// They write between our reading and our writing, look for their signature, and are done.
TEST_F(SigningAtOnce, DoesNotOverwriteASignatureThatCameFirst) {
  store_.before_write = [&] {
    if (store_.writes == 0) TheySign();
  };
  SignAndExpectBoth();
}

// In a store without a lock they may write even after we have read ours back.
TEST_F(SigningAtOnce, LooksAgainForItsOwnSignatureAfterAWhile) {
  int settled = 0;
  store_.while_settling = [&] {
    const auto ours = VerifySignatures(store_, set_, {key_.public_key()});
    if (ours && settled++ == 0) TheySign();
  };
  SignAndExpectBoth();
}

TEST_F(Signing, GivesUpIfATagNeverStays) {
  store_.after_write = [&] { store_.tags.erase(SignatureTag(set_)); };
  const auto done = SignIt(key_);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kUnavailable);
  EXPECT_THAT(done.error().message, HasSubstr("found another manifest 10 times"));
}

}  // namespace
}  // namespace moepack::registry
