// Blobs that are sent in chunks, to registries that differ in how they accept them.
#include "manifest/registry/server/chunked_upload.h"

#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "tests/remote/support/upload_test_base.h"

namespace moepack::registry {
namespace {

using remote::FakeRegistry;
using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kChunk = 100'000;

class ChunkedUploads : public UploadTestBase {
 protected:
  UploadOptions InChunks() const {
    UploadOptions options;
    options.mode = UploadMode::kChunked;
    options.chunk_bytes = kChunk;
    options.journal_directory = (dir_ / "journal").string();
    return options;
  }
  std::vector<std::string> Ranges() const {
    std::vector<std::string> ranges;
    for (const remote::FakeRequest& request : registry_.UploadRequests()) {
      if (request.method == "PATCH") ranges.push_back(request.Field("content-range"));
    }
    return ranges;
  }

  fixtures::TempDir dir_;
};

TEST_F(ChunkedUploads, SendsChunksInOrder) {
  registry_.Set({.state_in_query = true});
  const std::string bytes = Bytes(250'000);
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_TRUE(Has(bytes));
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PATCH", "PATCH", "PATCH", "PUT"));
  EXPECT_THAT(Ranges(), ElementsAre("0-99999", "100000-199999", "200000-249999"));
  EXPECT_EQ(registry_.UploadRequests().back().Field("content-length"), "0");
  EXPECT_TRUE(fs::is_empty(dir_ / "journal"));
}

TEST_F(ChunkedUploads, SendsAnEmptyBlobWithoutChunks) {
  EXPECT_EQ(Upload("", InChunks()), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT"));
}

TEST_F(ChunkedUploads, HonorsTheSmallestChunkOfTheRegistry) {
  registry_.Set({.least_chunk = 200'000});
  EXPECT_EQ(Upload(Bytes(250'000), InChunks()), "sent");
  EXPECT_THAT(Ranges(), ElementsAre("0-199999", "200000-249999"));
}

TEST_F(ChunkedUploads, UnderstandsTheRepliesOfEveryRegistry) {
  const std::string bytes = Bytes(250'000);
  const FakeRegistry::Quirks quirks[] = {
      {.relative_location = true}, {.range_stays = true}, {.range_off_by_one = true}};
  for (const FakeRegistry::Quirks& each : quirks) {
    FakeRegistry other;
    other.Set(each);
    const RegistryClient client(
        remote::QuickClient(), ParseRepository(other.host() + "/a/b", false).value(), credentials_);
    Uploader uploader(client, InChunks());
    EXPECT_EQ(Upload(uploader, bytes), "sent");
    EXPECT_TRUE(other.HasBlob("a/b", bytes));
    EXPECT_THAT(other.Uploads(), ElementsAre("POST", "PATCH", "PATCH", "PATCH", "PUT"));
  }
}

TEST_F(ChunkedUploads, SendsTheRestToARegistryThatKeepsPartOfACutRequest) {
  registry_.Set({.keeps_cuts = true, .cuts = {kChunk, 30'000}});
  const std::string bytes = Bytes(250'000);
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_TRUE(Has(bytes));
  // libcurl 8 sends a request again by itself when the connection ends without an answer.
  EXPECT_THAT(
      registry_.Uploads(),
      AnyOf(ElementsAre("POST", "PATCH", "PATCH", "GET", "PATCH", "PATCH", "PUT"),
            ElementsAre("POST", "PATCH", "PATCH", "PATCH", "GET", "PATCH", "PATCH", "PUT")));
  EXPECT_THAT(Ranges(),
              AnyOf(ElementsAre("0-99999", "100000-199999", "130000-229999", "230000-249999"),
                    ElementsAre("0-99999", "100000-199999", "100000-199999", "130000-229999",
                                "230000-249999")));
}

TEST_F(ChunkedUploads, ResendsTheBlobToARegistryThatLosesACutUpload) {
  registry_.Set({.cuts = {kChunk, 30'000}});
  const std::string bytes = Bytes(250'000);
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_TRUE(Has(bytes));
  // libcurl 8 asks again by itself, and then the registry's answer says that the upload is lost.
  EXPECT_THAT(registry_.Uploads(), AnyOf(ElementsAre("POST", "PATCH", "PATCH", "GET", "POST",
                                                     "PATCH", "PATCH", "PATCH", "PUT"),
                                         ElementsAre("POST", "PATCH", "PATCH", "PATCH", "POST",
                                                     "PATCH", "PATCH", "PATCH", "PUT")));
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("sending the blob again, try 2")));
}

TEST_F(ChunkedUploads, AsksABusyRegistryWhereToResume) {
  std::atomic<int> count = 0;
  registry_.SetFault([&](const remote::FakeRequest& request, remote::FakeAnswer& answer) {
    if (request.method == "PATCH" && ++count == 2) answer = remote::Plain(503);
  });
  const std::string bytes = Bytes(250'000);
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PATCH", "PATCH", "GET", "PATCH", "PUT"));
}

TEST_F(ChunkedUploads, ARegistryThatStaysBusyEndsTheUpload) {
  registry_.Set({.patch_status = 503});
  EXPECT_THAT(Upload(Bytes(250'000), InChunks()), HasSubstr("found status 503"));
  EXPECT_EQ(code_, Code::kUnavailable);
}

TEST_F(ChunkedUploads, RenewsCredentialsThatExpireDuringAnUpload) {
  credentials_ =
      std::make_shared<ListedCredentials>(std::vector<std::string>{"Bearer one", "Bearer two"});
  registry_.SetAuthorization("Bearer one");
  std::atomic<int> count = 0;
  registry_.SetFault([&](const remote::FakeRequest& request, remote::FakeAnswer&) {
    if (request.method == "PATCH" && ++count == 2) registry_.SetAuthorization("Bearer two");
  });
  const std::string bytes = Bytes(250'000);
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_TRUE(Has(bytes));
  EXPECT_THAT(registry_.Uploads(),
              ElementsAre("POST", "PATCH", "PATCH", "PATCH", "GET", "PATCH", "PUT"));
}

TEST_F(ChunkedUploads, SwitchesToSmallerChunksWhenTheRequestIsTooLarge) {
  registry_.Set({.most_body = 150'000});
  UploadOptions options;
  options.chunk_bytes = 400'000;
  const RegistryClient client = Client();
  Uploader uploader(client, options);
  const std::string bytes = Bytes(450'000);
  EXPECT_EQ(Upload(uploader, bytes), "sent");
  EXPECT_TRUE(Has(bytes));
  EXPECT_THAT(Ranges(), ElementsAre("0-399999", "0-199999", "0-99999", "100000-199999",
                                    "200000-299999", "300000-399999", "400000-449999"));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_THAT(warnings_[0],
              HasSubstr("found status 413 (too large), a web page; sending it in chunks"));
  // The next one does not have to find out.
  registry_.server().Forget();
  EXPECT_EQ(Upload(uploader, Bytes(460'000)), "sent");
  EXPECT_EQ(registry_.Uploads()[1], "PATCH");
  // A smaller one may be.
  registry_.server().Forget();
  EXPECT_EQ(Upload(uploader, Bytes(1000)), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT"));
}

TEST_F(ChunkedUploads, AProxyWithAVerySmallLimitIsAnError) {
  registry_.Set({.most_body = 1000});
  EXPECT_THAT(Upload(Bytes(450'000)), HasSubstr("found status 413 (too large)"));
  EXPECT_EQ(code_, Code::kIo);
  EXPECT_THAT(hint_, HasSubstr("raise the limit"));
}

TEST_F(ChunkedUploads, SendsChunksToARegistryThatRefusesWholeBlobs) {
  registry_.Set({.no_put = true});
  const std::string bytes = Bytes(250'000);
  EXPECT_EQ(Upload(bytes), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT", "POST", "PATCH", "PUT"));
}

TEST_F(ChunkedUploads, UsesOnlyTheRequestedMode) {
  UploadOptions whole;
  whole.mode = UploadMode::kWhole;
  registry_.Set({.no_put = true});
  EXPECT_THAT(Upload(Bytes(1000), whole), HasSubstr("found status 405, UNSUPPORTED: \"no PUT\""));
  registry_.Set({.no_patch = true});
  EXPECT_THAT(Upload(Bytes(1000), InChunks()),
              HasSubstr("found status 405, UNSUPPORTED: \"no chunks\""));
  registry_.Set({.most_patch = 1000});
  EXPECT_THAT(Upload(Bytes(2000), InChunks()), HasSubstr("found status 416, RANGE_INVALID"));
}

TEST_F(ChunkedUploads, TriesEachModeOnceIfTheRegistryAcceptsNeither) {
  registry_.Set({.no_patch = true, .no_put = true});
  EXPECT_THAT(Upload(Bytes(1000)), HasSubstr("found status 405"));
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT", "POST", "PATCH"));
}

TEST_F(ChunkedUploads, ANewProcessResumesWhereTheLastOneStopped) {
  const std::string bytes = Bytes(250'000);
  std::atomic<int> count = 0;
  registry_.SetFault([&](const remote::FakeRequest& request, remote::FakeAnswer&) {
    if (request.method == "PATCH" && ++count == 2) InterruptRequested() = true;
  });
  (void)Upload(bytes, InChunks());
  InterruptRequested() = false;
  EXPECT_EQ(code_, Code::kInterrupted);
  registry_.SetFault({});
  registry_.server().Forget();
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_TRUE(Has(bytes));
  EXPECT_THAT(registry_.Uploads(), ElementsAre("GET", "PATCH", "PUT"));
  EXPECT_THAT(Ranges(), ElementsAre("200000-249999"));
}

TEST_F(ChunkedUploads, DoesNotResumeASessionThatTheRegistryLost) {
  const std::string bytes = Bytes(250'000);
  const UploadJournal journal((dir_ / "journal").string(), registry_.host(), "a/b");
  const std::string gone = registry_.server().origin() + "/v2/a/b/blobs/uploads/gone";
  ASSERT_TRUE(journal.Note(BlobOf(bytes).digest, {gone, 100'000}));
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_TRUE(Has(bytes));
  EXPECT_THAT(registry_.Uploads(), ElementsAre("GET", "POST", "PATCH", "PATCH", "PATCH", "PUT"));
}

TEST_F(ChunkedUploads, DoesNotFollowAJournalThatLeadsElsewhere) {
  remote::FaultServer other;
  const std::string bytes = Bytes(250'000);
  const UploadJournal journal((dir_ / "journal").string(), registry_.host(), "a/b");
  ASSERT_TRUE(journal.Note(BlobOf(bytes).digest, {other.origin() + "/x", 100'000}));
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_EQ(other.requests().size(), 0u);
}

TEST_F(ChunkedUploads, ResendsEverythingIfAnotherProcessSentOtherBytes) {
  const std::string bytes = Bytes(250'000), other = Bytes(250'000, 1);
  const RegistryClient client = Client();
  const auto session = client.StartUpload();
  ASSERT_TRUE(session);
  remote::HttpRequest request;
  request.method = "PATCH";
  request.url = session->url;
  request.headers = {"Content-Range: 0-99999"};
  request.body = remote::TextBody(other.substr(0, 100'000));
  ASSERT_EQ(client.AskOnce(request, {}).attempt.reply.status, 202);
  const UploadJournal journal((dir_ / "journal").string(), registry_.host(), "a/b");
  ASSERT_TRUE(journal.Note(BlobOf(bytes).digest, {session->url.Text(), 100'000}));
  EXPECT_EQ(Upload(bytes, InChunks()), "sent");
  EXPECT_TRUE(Has(bytes));
  EXPECT_FALSE(Has(other));
}

TEST_F(ChunkedUploads, SendsLargeBlobsInChunksIfUploadsSurviveACut) {
  UploadOptions options;
  options.whole_up_to = 150'000;
  options.chunk_bytes = kChunk;
  const RegistryClient client = Client();
  Uploader uploader(client, options);
  EXPECT_EQ(Upload(uploader, Bytes(150'000)), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PUT"));
  registry_.server().Forget();
  EXPECT_EQ(Upload(uploader, Bytes(150'001)), "sent");
  EXPECT_EQ(Upload(uploader, Bytes(200'000)), "sent");
  // The registry is asked only once.
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PATCH", "GET", "DELETE", "POST", "PATCH",
                                               "PATCH", "PUT", "POST", "PATCH", "PATCH", "PUT"));
  registry_.Set({.state_in_query = true});
  registry_.server().Forget();
  EXPECT_EQ(Upload(Bytes(160'000), options), "sent");
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PATCH", "GET", "DELETE", "POST", "PUT"));
}

TEST_F(ChunkedUploads, RemovesTheJournalOfAnExistingBlob) {
  const std::string bytes = Bytes(1000);
  registry_.AddBlob("a/b", bytes);
  const UploadJournal journal((dir_ / "journal").string(), registry_.host(), "a/b");
  ASSERT_TRUE(journal.Note(BlobOf(bytes).digest, {registry_.server().origin() + "/x", 100}));
  EXPECT_EQ(Upload(bytes, InChunks()), "there");
  EXPECT_TRUE(fs::is_empty(dir_ / "journal"));
}

TEST_F(ChunkedUploads, TestsWhetherUploadsToARegistrySurviveACut) {
  EXPECT_TRUE(SurvivesCuts(Client()));
  EXPECT_THAT(registry_.Uploads(), ElementsAre("POST", "PATCH", "GET", "DELETE"));
  EXPECT_EQ(registry_.open_uploads(), 0u);
  registry_.Set({.state_in_query = true});
  EXPECT_FALSE(SurvivesCuts(Client()));
  EXPECT_EQ(registry_.open_uploads(), 0u);
  registry_.Set({.no_patch = true});
  EXPECT_FALSE(SurvivesCuts(Client()));
}

}  // namespace
}  // namespace moepack::registry
