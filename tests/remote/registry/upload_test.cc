// Blobs that are sent whole, to a registry that behaves like known hosted ones.
#include "manifest/registry/server/upload.h"

#include "tests/remote/support/upload_test_base.h"

namespace moepack::registry {
namespace {

using remote::FakeRegistry;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Quirks = FakeRegistry::Quirks;

class WholeUpload : public UploadTestBase {};

TEST_F(WholeUpload, SendsABlobOnceAndFindsItLater) {
  const std::string bytes = Bytes(3 << 20);
  EXPECT_EQ(Upload(bytes), "sent");
  EXPECT_TRUE(Has(bytes));
  EXPECT_EQ(Upload(bytes), "there");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT"));
  const remote::FakeRequest put = registry_.UploadRequests()[1];
  EXPECT_EQ(put.Field("content-length"), std::to_string(bytes.size()));
  EXPECT_EQ(put.Field("content-type"), "application/octet-stream");
  EXPECT_EQ(registry_.server().received(), bytes.size());
  EXPECT_EQ(registry_.open_uploads(), 0u);
}

TEST_F(WholeUpload, AcceptsRelativeAddressesAndAddressesWithAQuery) {
  for (const bool relative : {false, true}) {
    registry_.Set({.relative_location = relative, .state_in_query = true});
    registry_.server().Forget();
    const std::string bytes = Bytes(1000, relative ? 1 : 2);
    EXPECT_EQ(Upload(bytes), "sent");
    EXPECT_EQ(registry_.UploadRequests()[1].query,
              Cat("_state=0%3D&digest=sha256%3A", Sha256Hex(bytes)));
  }
}

TEST_F(WholeUpload, RetriesTransientErrorsInNewSessions) {
  registry_.Set({.put_answers = {503, 500, 429, 404}});
  const std::string bytes = Bytes(100000);
  EXPECT_EQ(Upload(bytes), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT", "POST", "PUT", "POST", "PUT", "POST",
                                               "PUT", "POST", "PUT"));
  ASSERT_EQ(warnings_.size(), 4u);
  EXPECT_THAT(warnings_[0], HasSubstr("(groups/1): expected 127.0.0.1 to do it, found status 503, "
                                      "UNKNOWN: \"not now\"; sending the blob again, try 2"));
}

TEST_F(WholeUpload, ARegistryThatStaysBusyIsUnavailable) {
  registry_.Set({.put_answers = {503, 503, 503, 503, 503}});
  EXPECT_THAT(Upload(Bytes(1000)), HasSubstr("found status 503"));
  EXPECT_EQ(code_, Code::kUnavailable);
}

TEST_F(WholeUpload, DoesNotRetryARefusal) {
  registry_.Set({.put_answers = {400}});
  EXPECT_THAT(Upload(Bytes(1000)), HasSubstr("found status 400, UNKNOWN: \"not now\""));
  EXPECT_EQ(code_, Code::kIo);
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT"));
}

TEST_F(WholeUpload, RestartsTheBlobAfterACutConnection) {
  registry_.Set({.cuts = {100, 700000}});
  const std::string bytes = Bytes(3 << 20);
  EXPECT_EQ(Upload(bytes), "sent");
  EXPECT_TRUE(Has(bytes));
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT", "POST", "PUT", "POST", "PUT"));
}

TEST_F(WholeUpload, DoesNotResendABlobWhoseReplyWasLost) {
  std::atomic<int> puts = 0;
  registry_.SetFault([&](const remote::FakeRequest& request, remote::FakeAnswer& answer) {
    if (request.method == "PUT" && ++puts == 1) answer = remote::Plain(502);
  });
  EXPECT_EQ(Upload(Bytes(1000)), "sent");
  EXPECT_EQ(puts, 1);
}

TEST_F(WholeUpload, ReportsABlobOfAnotherSizeAsDamaged) {
  const std::string bytes = Bytes(1000);
  registry_.AddBlob("a/b", bytes);
  registry_.SetFault([](const remote::FakeRequest& request, remote::FakeAnswer& answer) {
    if (request.method == "HEAD") answer.Set("Content-Length", "999");
  });
  EXPECT_THAT(Upload(bytes), HasSubstr("(groups/1): size: expected 1000 bytes, found 999"));
  EXPECT_EQ(code_, Code::kCorrupt);
  EXPECT_THAT(hint_, HasSubstr("the registry holds a corrupt copy"));
  EXPECT_THAT(registry_.Uploads(), IsEmpty());
}

TEST_F(WholeUpload, ABlobThatTheRegistryLosesIsAnError) {
  registry_.Set({.loses_blobs = true, .states_digest = false});
  EXPECT_THAT(Upload(Bytes(1000)), HasSubstr("expected it to be there now, found nothing"));
  EXPECT_EQ(code_, Code::kIo);
}

TEST_F(WholeUpload, AReplyWithAnotherDigestIsAnError) {
  registry_.SetFault([](const remote::FakeRequest& request, remote::FakeAnswer& answer) {
    if (request.method == "PUT")
      answer.Set("Docker-Content-Digest", "sha256:" + std::string(64, 'a'));
  });
  EXPECT_THAT(Upload(Bytes(1000)), HasSubstr("expected it under this digest, found sha256:aaaa"));
  EXPECT_EQ(code_, Code::kCorrupt);
}

TEST_F(WholeUpload, NeverCompletesABlobWithOtherBytes) {
  const RegistryClient client = Client();
  Uploader uploader(client, {});
  const MemorySource source("file", Bytes(100000));
  const BlobRecord promised = BlobOf(Bytes(100000, 1));
  const auto added = uploader.Upload(source, promised, {});
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kMismatch);
  EXPECT_THAT(added.error().message, HasSubstr("file: sha256: expected "));
  EXPECT_LT(registry_.server().received(), 100000u);
  EXPECT_THAT(registry_.Uploads(), AnyOf(ElementsAre("POST"), ElementsAre("POST", "PUT")));
}

TEST_F(WholeUpload, MountsBlobsWherePossible) {
  const std::string bytes = Bytes(1000);
  registry_.AddBlob("other/x", bytes);
  UploadOptions options;
  options.mount_from = {"a/b", "other/none", "other/x"};
  EXPECT_EQ(Upload(bytes, options), "mounted");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "POST"));
  EXPECT_EQ(registry_.UploadRequests()[1].query,
            Cat("mount=sha256%3A", Sha256Hex(bytes), "&from=other%2Fx"));
  EXPECT_EQ(registry_.server().received(), 0u);
}

TEST_F(WholeUpload, SendsTheBlobInTheSameSessionIfItCannotBeMounted) {
  const std::string bytes = Bytes(1000);
  registry_.AddBlob("other/x", bytes);
  registry_.Set({.mounts = false});
  UploadOptions options;
  options.mount_from = {"other/x"};
  EXPECT_EQ(Upload(bytes, options), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT"));
}

TEST_F(WholeUpload, AForbiddenMountIsNotAnError) {
  registry_.SetFault([](const remote::FakeRequest& request, remote::FakeAnswer& answer) {
    if (request.query.starts_with("mount="))
      answer = remote::RegistryRefusal(403, "DENIED", "not yours");
  });
  UploadOptions options;
  options.mount_from = {"other/x"};
  EXPECT_EQ(Upload(Bytes(1000), options), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "POST", "PUT"));
}

TEST_F(WholeUpload, RenewsCredentialsOnceAndResendsTheBlob) {
  const auto credentials =
      std::make_shared<ListedCredentials>(std::vector<std::string>{"Bearer one", "Bearer two"});
  credentials_ = credentials;
  registry_.SetAuthorization("Bearer one");
  registry_.SetFault([&](const remote::FakeRequest& request, remote::FakeAnswer&) {
    if (request.method == "POST") registry_.SetAuthorization("Bearer two");
  });
  const std::string bytes = Bytes(3 << 20);
  EXPECT_EQ(Upload(bytes), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT", "POST", "PUT"));
  // The refusal came before the body.
  EXPECT_EQ(registry_.server().received(), bytes.size());
  EXPECT_THAT(credentials->scopes(), testing::Contains("repository:a/b:pull,push"));
  EXPECT_THAT(credentials->scopes(), testing::Contains("repository:a/b:pull"));
}

TEST_F(WholeUpload, ReportsRefusedCredentials) {
  credentials_ = std::make_shared<ListedCredentials>(std::vector<std::string>{"Bearer s3cret"});
  registry_.SetAuthorization("Bearer other");
  const std::string message = Upload(Bytes(1000));
  EXPECT_THAT(message, HasSubstr("expected access to repository:a/b:pull, found status 401 from "
                                 "127.0.0.1, UNAUTHORIZED: \"authentication required\"; asked with "
                                 "credentials of the test (user u)"));
  EXPECT_THAT(message, Not(HasSubstr("s3cret")));
  EXPECT_EQ(code_, Code::kIo);
}

TEST_F(WholeUpload, RequestsAByteFromARegistryThatRefusesHead) {
  const std::string bytes = Bytes(1000);
  registry_.AddBlob("a/b", bytes);
  registry_.Set({.refuses_head = true});
  EXPECT_EQ(Upload(bytes), "there");
  EXPECT_EQ(registry_.server().requests().back().Field("range"), "bytes=0-0");
  EXPECT_EQ(Upload(Bytes(1000, 1)), "sent");
}

TEST_F(WholeUpload, SendsBytesButNotCredentialsToAnotherOrigin) {
  remote::FaultServer other;
  other.SetFault([](const remote::FakeRequest&, remote::FakeAnswer& answer) {
    answer = remote::Plain(201);
    answer.Set("Docker-Content-Digest", "not told");
  });
  credentials_ = std::make_shared<ListedCredentials>(std::vector<std::string>{"Bearer s3cret"});
  registry_.SetAuthorization("Bearer s3cret");
  registry_.SetFault([&](const remote::FakeRequest& request, remote::FakeAnswer& answer) {
    if (request.method == "POST") answer.Set("Location", other.origin() + "/bucket?sig=x");
  });
  EXPECT_EQ(Upload(Bytes(1000)), "sent");
  ASSERT_EQ(other.requests().size(), 1u);
  EXPECT_EQ(other.requests()[0].Field("authorization"), "");
  EXPECT_EQ(other.requests()[0].body.size(), 1000u);
}

TEST_F(WholeUpload, ASessionWithoutAnAddressIsAnError) {
  registry_.SetFault([](const remote::FakeRequest& request, remote::FakeAnswer& answer) {
    if (request.method == "POST") answer.Remove("Location");
  });
  EXPECT_THAT(Upload(Bytes(10)),
              HasSubstr("upload: Location: expected where to resume the upload, found none"));
  registry_.SetFault([](const remote::FakeRequest& request, remote::FakeAnswer& answer) {
    if (request.method == "POST") answer.Set("Location", "file:///etc/passwd");
  });
  EXPECT_THAT(Upload(Bytes(10)), HasSubstr("found an invalid address"));
}

TEST_F(WholeUpload, TreatsHttpInAnHttpsReplyAsAMistakeOfAProxy) {
  const RegistryClient client = Client();
  remote::HttpReply reply;
  reply.url = remote::ParseUrl("https://registry.example:8443/v2/a/b/blobs/uploads/").value();
  reply.fields = {{"location", "http://registry.example/v2/a/b/blobs/uploads/1?_state=s3cret"}};
  EXPECT_EQ(client.LocationOf(reply, "x")->Text(),
            "https://registry.example:8443/v2/a/b/blobs/uploads/1?_state=s3cret");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0], HasSubstr("X-Forwarded-Proto"));
  EXPECT_THAT(warnings_[0], Not(HasSubstr("s3cret")));
  reply.fields = {{"location", "http://other.example/1?_state=s3cret"}};
  const auto elsewhere = client.LocationOf(reply, "x");
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().message, "x: Location: expected https, found http to other.example");
  reply.fields = {{"location", "https://me:pw@cdn.example/1"}};
  EXPECT_EQ(client.LocationOf(reply, "x")->user, "");
}

TEST_F(WholeUpload, ManyThreadsSendConcurrently) {
  const RegistryClient client = Client();
  Uploader uploader(client, {});
  std::vector<std::jthread> threads;
  std::atomic<int> sent = 0;
  for (char i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      const std::string bytes = Bytes(200000, i);
      const MemorySource source("file", bytes);
      const auto added = uploader.Upload(source, BlobOf(bytes), {});
      if (added && added->how == "sent") ++sent;
    });
  }
  threads.clear();
  EXPECT_EQ(sent, 8);
  EXPECT_EQ(uploader.counts().sent.blobs, 8u);
  EXPECT_EQ(uploader.counts().sent.bytes, 1600000u);
}

}  // namespace
}  // namespace moepack::registry
