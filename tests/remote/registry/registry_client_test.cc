// Reading from a registry that replies correctly, and from one that does not.
#include "manifest/registry/server/registry_client.h"

#include "manifest/registry/server/server_store.h"
#include "tests/remote/support/upload_test_base.h"

namespace moepack::registry {
namespace {

using remote::FakeAnswer;
using remote::FakeRequest;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class RegistryReads : public UploadTestBase {
 protected:
  static std::string ManifestOf(const std::string& media_type) {
    return Cat(R"({"schemaVersion":2,"mediaType":")", media_type, R"(","layers":[]})");
  }
  void Put(const std::string& tag, const std::string& text) {
    const BlobRecord record{kManifestType, DigestOf(Sha256Hex(text)), text.size()};
    const Status put = Client().PutManifest(tag, record, text);
    ASSERT_TRUE(put) << put.error().message;
  }
  void ChangeGets(const std::function<void(FakeAnswer&)>& change) {
    registry_.SetFault([change](const FakeRequest& request, FakeAnswer& answer) {
      if (request.method == "GET") change(answer);
    });
  }
  Error Wrong(const std::string& reference) {
    const auto manifest = Client().GetManifest(reference);
    EXPECT_FALSE(manifest);
    return manifest ? Error{} : manifest.error();
  }
  std::shared_ptr<ServerStore> Store() {
    std::shared_ptr<const RegistryClient> client(new RegistryClient(Client()));
    return std::make_shared<ServerStore>(std::move(client), UploadOptions());
  }
  static std::string Read(const ServerStore& store, const std::string& bytes) {
    const auto source = store.blobs().Open(store.FileOf(BlobOf(bytes)));
    if (!source) return source.error().message;
    std::string text((*source)->size(), '\0');
    const Status read = (*source)->ReadAt(0, std::as_writable_bytes(std::span(text)));
    return read ? text : read.error().message;
  }

  const std::string text_ = ManifestOf(kManifestType);
  const std::string digest_ = DigestOf(Sha256Hex(text_));
};

TEST_F(RegistryReads, ReadsAManifestByTagAndByDigest) {
  Put("v1", text_);
  for (const std::string& reference : {std::string("v1"), digest_}) {
    const auto manifest = Client().GetManifest(reference);
    ASSERT_TRUE(manifest) << manifest.error().message;
    EXPECT_EQ(manifest->text, text_);
    EXPECT_EQ(manifest->record.digest, digest_);
    EXPECT_EQ(manifest->record.size, text_.size());
    EXPECT_EQ(manifest->record.media_type, kManifestType);
  }
  EXPECT_THAT(registry_.server().requests().back().Field("accept"), HasSubstr(kManifestType));
}

TEST_F(RegistryReads, RefusesAManifestThatDiffersFromItsDigest) {
  Put("v1", text_);
  ChangeGets([](FakeAnswer& answer) { answer.body.back() = ' '; });
  const Error by_digest = Wrong(digest_);
  EXPECT_EQ(by_digest.code, Code::kCorrupt);
  EXPECT_THAT(by_digest.message,
              HasSubstr(Cat("/a/b@", digest_, ": expected ", digest_, ", found sha256:")));
  // For its tag, the registry itself said which manifest it is.
  EXPECT_EQ(Wrong("v1").code, Code::kCorrupt);
}

TEST_F(RegistryReads, TheMediaTypeOfAManifestMustMatchTheReply) {
  Put("v1", text_);
  ChangeGets([](FakeAnswer& answer) { answer.Set("Content-Type", kIndexType); });
  const Error error = Wrong("v1");
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr(Cat(":v1: mediaType: expected \"", kIndexType,
                                           "\" as in Content-Type, "
                                           "found \"",
                                           kManifestType, "\"")));
}

TEST_F(RegistryReads, RefusesWebPagesAndLongRepliesAsManifests) {
  Put("v1", text_);
  ChangeGets([](FakeAnswer& answer) { answer.body = std::string((4 << 20) + 1, ' '); });
  const Error error = Wrong(digest_);
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("expected at most 4194304 bytes, found more"));
  Put("v2", "no json");
  registry_.SetFault({});
  EXPECT_EQ(Wrong("v2").code, Code::kCorrupt);
}

TEST_F(RegistryReads, FindsATagByHeadOrElseByGet) {
  Put("v1", text_);
  EXPECT_EQ(Store()->FindTag("v1")->digest, digest_);
  EXPECT_EQ(registry_.server().requests().back().method, "HEAD");
  registry_.Set({.states_digest = false});
  EXPECT_EQ(Store()->FindTag("v1")->digest, digest_);
  EXPECT_EQ(registry_.server().requests().back().method, "GET");
  const auto none = Store()->FindTag("v2");
  EXPECT_EQ(none.error().code, Code::kNotFound);
  EXPECT_THAT(none.error().message,
              HasSubstr("/a/b:v2: not found, or no permission (status 404, MANIFEST_UNKNOWN: "));
  EXPECT_THAT(none.error().hint, HasSubstr("/a/b` lists the tags"));
}

// The storage of a registry: its addresses are signed for GET, and it has a type of its own for
// all.
class RedirectedReads : public RegistryReads {
 protected:
  RedirectedReads() {
    storage_.Add("/bucket/m", text_);
    storage_.SetFault([this](const FakeRequest& request, FakeAnswer& answer) {
      if (request.method != "GET") answer = remote::Plain(refusal_);
      answer.Set("Content-Type", "binary/octet-stream");
    });
    registry_.SetFault([this](const FakeRequest& request, FakeAnswer& answer) {
      if (request.method != "PUT" && answer.status == 200)
        answer = remote::LeadTo(307, Cat(storage_.origin(), "/bucket/m?signed"));
    });
  }

  remote::FaultServer storage_;
  int refusal_ = 403;
};

TEST_F(RedirectedReads, FindATagWhereTheStorageRefusesHead) {
  Put("v1", text_);
  for (const int status : {400, 401, 403, 405, 501}) {
    refusal_ = status;
    const auto found = Store()->FindTag("v1");
    ASSERT_TRUE(found) << status << found.error().message;
    EXPECT_EQ(found->digest, digest_);
    EXPECT_EQ(found->size, text_.size());
    EXPECT_EQ(found->media_type, kManifestType);
    const auto text = Store()->ReadManifest(*found);
    ASSERT_TRUE(text) << text.error().message;
    EXPECT_EQ(*text, text_);
  }
  EXPECT_EQ(Store()->FindTag("v2").error().code, Code::kNotFound);
  EXPECT_TRUE(Store()->AddManifest({kManifestType, digest_, text_.size()}, text_)->was_there());
}

TEST_F(RedirectedReads, RefuseWhatTheStorageHasInPlaceOfTheManifest) {
  Put("v1", text_);
  storage_.Add("/bucket/m", "<html>");
  EXPECT_EQ(Wrong("v1").code, Code::kCorrupt);
  EXPECT_EQ(Wrong(digest_).code, Code::kCorrupt);
}

// The user's login is not to blame.
TEST_F(RedirectedReads, DoNotAskForALoginWhereTheStorageRefuses) {
  Put("v1", text_);
  storage_.SetFault([](const FakeRequest&, FakeAnswer& answer) { answer = remote::Plain(403); });
  const auto found = Store()->FindTag("v1");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::kIo);
  EXPECT_THAT(found.error().message,
              HasSubstr(":v1: expected the storage to which the registry leads to answer, found "
                        "status 403 from 127.0.0.1"));
  EXPECT_THAT(found.error().hint, Not(HasSubstr("log in")));
}

// Two signers, for instance, who have both read what a tag names.
TEST_F(RegistryReads, ReplacesATagOnlyIfItNamesWhatItNamed) {
  const std::string other = ManifestOf(kManifestType) + "\n", third = other + "\n";
  const auto put = [&](const std::string& text, const std::string& before) {
    const BlobRecord blob{kManifestType, DigestOf(Sha256Hex(text)), text.size()};
    const auto left = Store()->SetTags({{"v1", blob, text, before}});
    EXPECT_TRUE(left) << left.error().message;
    return left && left->empty();
  };
  EXPECT_FALSE(put(text_, DigestOf(Sha256Hex(other))));
  EXPECT_TRUE(put(text_, ""));
  EXPECT_EQ(registry_.server().requests().back().Field("if-none-match"), "*");
  EXPECT_FALSE(put(other, ""));
  EXPECT_TRUE(put(other, digest_));
  EXPECT_EQ(registry_.server().requests().back().Field("if-match"), Cat("\"", digest_, "\""));
  // One that compares something else is told without a condition.
  registry_.Set({.refuses_conditions = true});
  EXPECT_TRUE(put(third, DigestOf(Sha256Hex(other))));
  EXPECT_EQ(registry_.server().requests().back().Field("if-match"), "");
  // One that compares has the last word: somebody came between the look and the request.
  registry_.Set({.compares = true});
  const BlobRecord blob{kManifestType, digest_, text_.size()};
  EXPECT_FALSE(*Client().PutManifestIf(Cat("If-Match: \"", digest_, "\""), "v1", blob, text_));
  EXPECT_TRUE(put(text_, DigestOf(Sha256Hex(third))));
}

TEST_F(RegistryReads, TriesAgainWhileAnotherRequestWritesTheSameLink) {
  registry_.Set({.mid_writes = 2});
  Put("v1", text_);
  EXPECT_EQ(Store()->FindTag("v1")->digest, digest_);
  registry_.Set({.mid_writes = 100});
  const Status put = Client().PutManifest("v1", {kManifestType, digest_, text_.size()}, text_);
  ASSERT_FALSE(put);
  EXPECT_THAT(put.error().message, HasSubstr("status 400, DIGEST_INVALID"));
}

TEST_F(RegistryReads, AManifestStoredUnderAnotherDigestIsAnError) {
  registry_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.method == "PUT")
      answer.Set("Docker-Content-Digest", "sha256:" + std::string(64, '0'));
  });
  const Status put = Client().PutManifest("v1", {kManifestType, digest_, text_.size()}, text_);
  ASSERT_FALSE(put);
  EXPECT_EQ(put.error().code, Code::kCorrupt);
  EXPECT_THAT(put.error().message, HasSubstr(Cat(":v1: expected ", digest_, ", found sha256:00")));
}

TEST_F(RegistryReads, ListsTagsPageByPage) {
  for (const char* tag : {"a", "b", "c", "d", "e"}) Put(tag, text_);
  EXPECT_THAT(Client().ListTags().value(), ElementsAre("a", "b", "c", "d", "e"));
  const auto listed = Store()->List();
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 5u);
  EXPECT_EQ(listed->at(4).tag, "e");
  EXPECT_EQ(listed->at(4).manifest.digest, digest_);
  EXPECT_THAT(Client("no/tags").ListTags().value(), ElementsAre());
}

TEST_F(RegistryReads, RefusesAnInvalidListOfTags) {
  for (const char* body :
       {R"({"tags":["../x"]})", R"({"tags":[7]})", R"({"tags":"x"})", "[", "{]"}) {
    ChangeGets([&](FakeAnswer& answer) { answer = remote::Plain(200, body); });
    const auto tags = Client().ListTags();
    ASSERT_FALSE(tags) << body;
    EXPECT_EQ(tags.error().code, Code::kCorrupt) << tags.error().message;
    EXPECT_THAT(tags.error().message, HasSubstr("/a/b: list of tags"));
  }
}

TEST_F(RegistryReads, FollowsTheNextPageOnlyOnTheSameRegistry) {
  ChangeGets([](FakeAnswer& answer) {
    answer = remote::Plain(200, R"({"tags":["a"]})");
    answer.Set("Link", "<https://other.example/v2/>; rel=\"next\"");
  });
  const auto tags = Client().ListTags();
  ASSERT_FALSE(tags);
  EXPECT_THAT(tags.error().message, HasSubstr("next page: expected it at http://127.0.0.1"));
  ChangeGets([](FakeAnswer& answer) {
    answer = remote::Plain(200, R"({"tags":["a"]})");
    answer.Set("Link", "</v2/a/b/tags/list?last=a>; rel=\"next\"");
  });
  const auto endless = Client().ListTags();
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, Code::kCorrupt);
  EXPECT_THAT(endless.error().message,
              HasSubstr("page 2: expected tags that were not listed before, found none"));
}

TEST_F(RegistryReads, IgnoresATagDeletedDuringTheListing) {
  for (const char* tag : {"a", "b"}) Put(tag, text_);
  registry_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.path.ends_with("/manifests/a"))
      answer = remote::RegistryRefusal(404, "MANIFEST_UNKNOWN", "gone");
  });
  const auto listed = Store()->List();
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 1u);
  EXPECT_EQ(listed->at(0).tag, "b");
}

TEST_F(RegistryReads, FollowsTheRegistryToTheStorageOfABlob) {
  remote::FaultServer storage;
  const std::string bytes = Bytes(500'000);
  registry_.AddBlob("a/b", bytes);
  storage.Add("/bucket/x", bytes);
  credentials_ = std::make_shared<ListedCredentials>(std::vector<std::string>{"Bearer s3cret"});
  registry_.SetAuthorization("Bearer s3cret");
  std::atomic<int> signature = 0;
  registry_.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    if (request.method == "GET")
      answer = remote::LeadTo(307, Cat(storage.origin(), "/bucket/x?sig=", ++signature));
  });
  // Each address is valid for one request.
  std::atomic<int> used = 0;
  storage.SetFault([&](const FakeRequest& request, FakeAnswer& answer) {
    if (request.query != Cat("sig=", ++used)) answer = remote::Plain(403);
  });
  EXPECT_EQ(Read(*Store(), bytes), bytes);
  for (const FakeRequest& request : storage.requests())
    EXPECT_EQ(request.Field("authorization"), "");
}

TEST_F(RegistryReads, RenewsCredentialsThatExpireBetweenReads) {
  const std::string bytes = Bytes(500'000);
  registry_.AddBlob("a/b", bytes);
  credentials_ = std::make_shared<ListedCredentials>(
      std::vector<std::string>{"Bearer one", "Bearer two", "Bearer three"});
  registry_.SetAuthorization("Bearer one");
  const auto store = Store();
  ASSERT_TRUE(store->CheckBlob(BlobOf(bytes)));
  registry_.SetAuthorization("Bearer two");
  const auto source = store->blobs().Open(store->FileOf(BlobOf(bytes)));
  ASSERT_TRUE(source) << source.error().message;
  registry_.SetAuthorization("Bearer three");
  std::string text(bytes.size(), '\0');
  const Status read = (*source)->ReadAt(0, std::as_writable_bytes(std::span(text)));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(text == bytes);
  const std::string other = Bytes(1000);
  registry_.AddBlob("a/b", other);
  ASSERT_TRUE(store->CheckBlob(BlobOf(other)));
  registry_.SetAuthorization("Bearer four");
  const auto refused = store->blobs().Open(store->FileOf(BlobOf(other)));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kIo);
  EXPECT_THAT(refused.error().message, HasSubstr("401"));
  EXPECT_THAT(refused.error().message, Not(HasSubstr("three")));
}

TEST_F(RegistryReads, DoesNotOpenABlobOfAnotherSize) {
  const std::string bytes = Bytes(1000);
  registry_.AddBlob("a/b", bytes);
  registry_.SetFault([](const FakeRequest& request, FakeAnswer& answer) {
    if (request.method == "GET") answer.Set("Content-Range", "bytes 0-998/999");
    if (request.method == "GET") answer.body.pop_back();
  });
  EXPECT_THAT(Read(*Store(), bytes), HasSubstr("size: expected 1000 bytes"));
}

TEST_F(RegistryReads, APingLearnsTheChallenge) {
  credentials_ = std::make_shared<ListedCredentials>(std::vector<std::string>{"", "Bearer s3cret"});
  registry_.SetAuthorization("Bearer s3cret");
  RegistryClient client = Client();
  ASSERT_TRUE(client.Ping());
  EXPECT_EQ(credentials_->HeaderFor({}).value(), "Bearer s3cret");
  EXPECT_EQ(client.repository().origin.scheme, "http");
}

}  // namespace
}  // namespace moepack::registry
