// A store over Debian's docker-registry: what is read equals what was sent, and nothing is sent
// twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/server/chunked_upload.h"
#include "manifest/registry/server/server_store.h"
#include "manifest/registry/server/upload_journal.h"
#include "tests/remote/support/docker_registry.h"
#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/nginx.h"
#include "tests/remote/support/no_credentials.h"
#include "tests/remote/support/quick_settings.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;
using remote::DockerRegistry;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RealRegistry : public testing::Test {
 protected:
  void SetUp() override {
    if (!DockerRegistry::IsInstalled()) GTEST_SKIP() << "docker-registry is not installed";
    registry_.emplace(dir_ / "registry");
    ASSERT_TRUE(registry_->started()) << registry_->Log();
  }
  std::shared_ptr<ServerStore> Store(const std::string& repository, UploadOptions upload = {}) {
    const ServerOptions options{remote::QuickSettings(), std::make_shared<NoCredentials>(), upload};
    auto store = OpenServer(Cat(registry_->host(), "/", repository), options);
    if (!store) throw std::runtime_error(store.error().message);
    return *std::move(store);
  }
  // A file of the temporary directory, and its record as a blob.
  BlobRecord File(const std::string& name, const std::string& bytes) {
    fixtures::WriteFile(dir_ / name, bytes);
    return {kWeightType, DigestOf(Sha256Hex(bytes)), bytes.size(), {{kPathKey, name}}};
  }
  Result<Added> Add(ServerStore& store, const BlobRecord& blob) {
    return store.AddFile(LocalTree(dir_.path()), blob.path(), blob, LinkKind::kAuto, {});
  }
  std::string How(ServerStore& store, const BlobRecord& blob) {
    const auto added = Add(store, blob);
    return added ? added->how : added.error().message;
  }
  static BlobRecord Config() { return {kConfigType, DigestOf(Sha256Hex(Text())), Text().size()}; }
  static std::string_view Text() { return "{}"; }
  NewTag Tag(const std::string& tag, const std::vector<BlobRecord>& layers) {
    OciManifest oci;
    oci.config = Config();
    oci.layers = layers;
    const std::string text = WriteOciManifest(oci);
    return {tag, {kManifestType, DigestOf(Sha256Hex(text)), text.size()}, text};
  }
  // "PUT 201" and so on for the requests that upload.
  std::vector<std::string> Uploads() {
    std::vector<std::string> out;
    for (const DockerRegistry::Request& request : registry_->requests()) {
      if (request.path.find("/blobs/uploads/") != std::string::npos)
        out.push_back(Cat(request.method, " ", request.status));
    }
    return out;
  }
  std::string Read(const ServerStore& store, const BlobRecord& blob) {
    const auto source = store.blobs().Open(store.FileOf(blob));
    if (!source) return source.error().message;
    std::string text((*source)->size(), '\0');
    const Status read = (*source)->ReadAt(0, std::as_writable_bytes(std::span(text)));
    return read ? text : read.error().message;
  }

  fixtures::TempDir dir_;
  std::optional<DockerRegistry> registry_;
};

TEST_F(RealRegistry, ReadsBackWhatWasPublished) {
  const auto store = Store("team/model");
  const std::string bytes = std::string(5 << 20, 'x') + "the end";
  const BlobRecord large = File("large", bytes), empty = File("empty", "");
  EXPECT_EQ(How(*store, large), "sent");
  EXPECT_EQ(How(*store, empty), "sent");
  EXPECT_EQ(store->AddText(Config(), Text())->how, "sent");
  const NewTag tag = Tag("v1", {large, empty});
  EXPECT_EQ(store->AddManifest(tag.manifest, tag.text)->how, "sent");
  EXPECT_EQ(store->AddManifest(tag.manifest, tag.text)->how, "there");
  EXPECT_EQ(store->FindTag("v1").error().code, Code::kNotFound);
  const auto tagged = store->SetTags({tag, {"v2", tag.manifest, tag.text}});
  ASSERT_TRUE(tagged) << tagged.error().message;

  const auto reader = Store("team/model");
  EXPECT_EQ(reader->name(), Cat("oci://", registry_->host(), "/team/model"));
  const auto found = reader->FindTag("v1");
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->digest, tag.manifest.digest);
  EXPECT_EQ(found->size, tag.text.size());
  EXPECT_EQ(found->media_type, kManifestType);
  EXPECT_EQ(reader->ReadManifest(*found).value(), tag.text);
  EXPECT_EQ(reader->ReadManifest({"", tag.manifest.digest, 0}).value(), tag.text);
  const auto listed = reader->List();
  ASSERT_TRUE(listed) << listed.error().message;
  ASSERT_EQ(listed->size(), 2u);
  EXPECT_EQ(listed->at(0).tag, "v1");
  EXPECT_EQ(listed->at(1).tag, "v2");
  EXPECT_EQ(listed->at(1).manifest.digest, tag.manifest.digest);
  EXPECT_TRUE(reader->CheckBlob(large));
  EXPECT_TRUE(Read(*reader, large) == bytes);
  EXPECT_EQ(Read(*reader, empty), "");
  EXPECT_EQ(reader->ReadBlob(Config(), 100).value(), Text());
  const UploadCounts counts = store->counts();
  EXPECT_EQ(counts.sent.blobs, 3u);
  EXPECT_EQ(counts.sent.bytes, bytes.size() + Text().size());
}

TEST_F(RealRegistry, DoesNotResendExistingBlobs) {
  const BlobRecord blob = File("file", std::string(3 << 20, 'x'));
  const auto first = Store("a/b");
  EXPECT_EQ(How(*first, blob), "sent");
  (void)first->CheckBlob(blob);
  EXPECT_THAT(Uploads(), ElementsAre("POST 202", "PUT 201"));
  registry_->Forget();
  const auto second = Store("a/b");
  EXPECT_EQ(How(*second, blob), "there");
  (void)second->CheckBlob(blob);
  EXPECT_THAT(Uploads(), IsEmpty());
  EXPECT_EQ(second->counts().there.bytes, blob.size);
  EXPECT_EQ(second->counts().sent.blobs, 0u);
}

TEST_F(RealRegistry, MountsBlobsFromAnotherRepository) {
  const BlobRecord blob = File("file", std::string(3 << 20, 'x')), more = File("more", "more");
  EXPECT_EQ(How(*Store("a/b"), blob), "sent");
  registry_->Forget();
  UploadOptions options;
  options.mount_from = {"a/c", "a/none", "a/b"};
  const auto store = Store("a/c", options);
  EXPECT_EQ(How(*store, blob), "mounted");
  (void)store->CheckBlob(blob);
  EXPECT_THAT(Uploads(), ElementsAre("POST 202", "POST 201"));
  registry_->Forget();
  EXPECT_EQ(How(*store, more), "sent");
  (void)store->CheckBlob(blob);
  // The session that was offered instead of a mount is used.
  EXPECT_THAT(Uploads(), ElementsAre("POST 202", "POST 202", "PUT 201"));
  EXPECT_EQ(store->counts().mounted.bytes, blob.size);
}

TEST_F(RealRegistry, RefusesBytesThatDifferFromThePromisedOnes) {
  const auto store = Store("a/b");
  const BlobRecord blob = File("file", std::string(3 << 20, 'x'));
  fixtures::WriteFile(dir_ / "file", std::string(3 << 20, 'y'));
  const auto added = Add(*store, blob);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kMismatch);
  EXPECT_THAT(added.error().message,
              HasSubstr(Cat("file: sha256: expected ", HexOf(blob.digest), ", found ",
                            Sha256Hex(std::string(3 << 20, 'y')))));
  EXPECT_EQ(store->CheckBlob(blob).error().code, Code::kNotFound);
  fixtures::WriteFile(dir_ / "file", "short");
  EXPECT_THAT(Add(*store, blob).error().message,
              HasSubstr("file: size: expected 3145728 bytes, found 5"));
}

TEST_F(RealRegistry, DoesNotAcceptACopyOfAnotherSize) {
  const auto store = Store("a/b");
  const BlobRecord blob = File("file", "some bytes");
  EXPECT_EQ(How(*store, blob), "sent");
  fs::resize_file(registry_->BlobPath(blob.digest), 4);
  const auto added = Add(*store, blob);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kCorrupt);
  EXPECT_THAT(added.error().message, HasSubstr("(file): size: expected 10 bytes, found 4"));
  EXPECT_THAT(added.error().hint, HasSubstr("corrupt copy"));
  const Status checked = store->CheckBlob(blob);
  EXPECT_EQ(checked.error().code, Code::kCorrupt);
  EXPECT_THAT(checked.error().message, HasSubstr("size: expected 10 bytes, found 4"));
}

TEST_F(RealRegistry, QuotesTheRefusalOfAManifestWithoutItsBlobs) {
  const auto store = Store("a/b");
  const NewTag tag = Tag("v1", {});
  const auto added = store->AddManifest(tag.manifest, tag.text);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kIo);
  EXPECT_THAT(added.error().message, HasSubstr(Cat("@", tag.manifest.digest, ": ")));
  EXPECT_THAT(added.error().message, HasSubstr("status 400, MANIFEST_BLOB_UNKNOWN: "));
}

TEST_F(RealRegistry, ReportsMissingThingsAsNotFound) {
  const auto store = Store("a/b");
  const auto tag = store->FindTag("v1");
  ASSERT_FALSE(tag);
  EXPECT_EQ(tag.error().code, Code::kNotFound);
  EXPECT_THAT(tag.error().message, HasSubstr("/a/b:v1: not found, or no permission (status 404, "
                                             "MANIFEST_UNKNOWN: \"manifest unknown\")"));
  EXPECT_EQ(store->List().error().code, Code::kNotFound);
  EXPECT_THAT(store->List().error().message, HasSubstr("NAME_UNKNOWN"));
  const BlobRecord blob = File("file", "some bytes");
  EXPECT_EQ(store->CheckBlob(blob).error().code, Code::kNotFound);
  EXPECT_EQ(store->blobs().Open(store->FileOf(blob)).error().code, Code::kNotFound);
  EXPECT_EQ(store->ReadManifest(blob).error().code, Code::kNotFound);
}

TEST_F(RealRegistry, NoticesADamagedManifest) {
  const auto store = Store("a/b");
  ASSERT_TRUE(store->AddText(Config(), Text()));
  const NewTag tag = Tag("v1", {});
  ASSERT_TRUE(store->AddManifest(tag.manifest, tag.text));
  const auto shorter = store->ReadManifest({"", tag.manifest.digest, 5});
  EXPECT_EQ(shorter.error().code, Code::kCorrupt);
  EXPECT_THAT(shorter.error().message, HasSubstr("size: expected 5 bytes"));
  std::string other = tag.text;
  other[other.size() - 3] ^= 1;
  fs::permissions(registry_->BlobPath(tag.manifest.digest), fs::perms(0600));
  fixtures::WriteFile(registry_->BlobPath(tag.manifest.digest), other);
  const auto read = store->ReadManifest(tag.manifest);
  ASSERT_FALSE(read);
}

TEST_F(RealRegistry, SendsAFileFromAnotherServer) {
  const auto from = Store("a/from");
  const std::string bytes = std::string(20 << 20, 'x') + "the end";
  const BlobRecord blob = File("file", bytes);
  EXPECT_EQ(How(*from, blob), "sent");
  const auto to = Store("a/to");
  uint64_t told = 0;
  const auto added = to->AddFile(from->blobs(), from->FileOf(blob), blob, LinkKind::kAuto,
                                 [&](uint64_t step) { told += step; });
  ASSERT_TRUE(added) << added.error().message;
  EXPECT_EQ(added->how, "sent");
  EXPECT_EQ(told, bytes.size());
  EXPECT_TRUE(Read(*to, blob) == bytes);
}

TEST_F(RealRegistry, RejectsAServerThatIsNotARegistry) {
  const ServerOptions options{remote::QuickSettings(), std::make_shared<NoCredentials>(), {}};
  remote::FaultServer other;
  const std::string host = other.origin().substr(std::string_view("http://").size());
  const auto store = OpenServer(Cat(host, "/a"), options);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kUnsupported);
  EXPECT_THAT(store.error().message,
              HasSubstr(Cat("expected a registry at ", other.origin(), "/v2/, found status 404")));
  const auto none = OpenServer("127.0.0.1:1/a", options);
  EXPECT_EQ(none.error().code, Code::kUnavailable);
  ServerOptions mounts = options;
  mounts.upload.mount_from = {"host:5000/a"};
  const auto misspelt = OpenServer("127.0.0.1:1/a", mounts);
  EXPECT_EQ(misspelt.error().code, Code::kInvalidArgument);
  EXPECT_THAT(misspelt.error().message, HasSubstr("found \"host:5000/a\""));
}

// An upload whose first chunk was sent by one process and the rest by another, with a restart of
// the registry in between.
class RealRestart : public RealRegistry {
 protected:
  void SendFirstChunk(const std::string& bytes, const BlobRecord& blob,
                      const std::string& journal) {
    const RegistryClient client(remote::QuickClient(),
                                ParseRepository(registry_->host() + "/a/b", false).value(),
                                std::make_shared<NoCredentials>());
    const auto session = client.StartUpload();
    ASSERT_TRUE(session) << session.error().message;
    remote::HttpRequest request;
    request.method = "PATCH";
    request.url = session->url;
    request.headers = {"Content-Type: application/octet-stream",
                       Cat("Content-Range: 0-", kFirst - 1)};
    request.body = remote::TextBody(bytes.substr(0, kFirst));
    const auto sent = client.AskOnce(request, {});
    ASSERT_EQ(sent.attempt.reply.status, 202);
    const auto next = client.LocationOf(sent.attempt.reply, "x");
    ASSERT_TRUE(
        UploadJournal(journal, registry_->host(), "a/b").Note(blob.digest, {next->Text(), kFirst}));
  }
  // "GET 204" and so on for the process that sends the rest.
  std::vector<std::string> UploadsAfterRestart(const std::string& secret) {
    registry_.emplace(dir_ / "other", DockerRegistry::Settings{secret});
    const std::string bytes = std::string(2'500'000, 'x') + "the end";
    const BlobRecord blob = File("file", bytes);
    UploadOptions options;
    options.mode = UploadMode::kChunked;
    options.chunk_bytes = kFirst;
    options.journal_directory = (dir_ / "journal").string();
    SendFirstChunk(bytes, blob, options.journal_directory);
    registry_->Restart();
    EXPECT_TRUE(registry_->started()) << registry_->Log();
    registry_->Forget();
    const auto store = Store("a/b", options);
    EXPECT_EQ(How(*store, blob), "sent");
    EXPECT_TRUE(Read(*store, blob) == bytes);
    EXPECT_TRUE(fs::is_empty(options.journal_directory));
    return Uploads();
  }

  static constexpr uint64_t kFirst = 1'000'000;
};

TEST_F(RealRestart, TheUploadResumesWithASharedSecret) {
  EXPECT_THAT(UploadsAfterRestart("s3cret"),
              ElementsAre("GET 204", "PATCH 202", "PATCH 202", "PUT 201"));
}

TEST_F(RealRestart, TheUploadStartsOverWithoutASharedSecret) {
  EXPECT_THAT(UploadsAfterRestart(""),
              ElementsAre("GET 404", "POST 202", "PATCH 202", "PATCH 202", "PATCH 202", "PUT 201"));
}

TEST_F(RealRestart, UploadsDoNotSurviveACut) {
  const RegistryClient client(remote::QuickClient(),
                              ParseRepository(registry_->host() + "/a/b", false).value(),
                              std::make_shared<NoCredentials>());
  EXPECT_FALSE(SurvivesCuts(client));
}

// nginx as a proxy that accepts requests of at most one MiB.
class RealProxy : public RealRegistry {
 protected:
  void SetUp() override {
    RealRegistry::SetUp();
    if (IsSkipped()) return;
    if (remote::FindProgram("nginx").empty()) GTEST_SKIP() << "nginx is not installed";
    nginx_.emplace([this](uint16_t port) { return Command(port); }, dir_ / "nginx.log");
    ASSERT_TRUE(nginx_->started()) << fixtures::ReadFile(dir_ / "nginx.log");
  }
  std::vector<std::string> Command(uint16_t port) {
    return remote::NginxCommand(
        dir_ / "nginx", port, "",
        Cat("client_max_body_size 1m;\nlocation / {\nproxy_pass http://", registry_->host(),
            ";\nproxy_set_header Host $http_host;\nproxy_request_buffering off;\n",
            "proxy_http_version 1.1;\n}"));
  }
  std::optional<remote::RealServer> nginx_;
};

TEST_F(RealProxy, SendsChunksIfARequestIsTooLarge) {
  ServerOptions options{remote::QuickSettings(), std::make_shared<NoCredentials>(), {}};
  std::vector<std::string> warnings;
  options.http.warn = [&](const std::string& text) { warnings.push_back(text); };
  options.upload.chunk_bytes = 4 << 20;
  const auto store = OpenServer(Cat("127.0.0.1:", nginx_->port(), "/a/b"), options);
  ASSERT_TRUE(store) << store.error().message;
  const std::string bytes = std::string(5 << 20, 'x') + "the end";
  const BlobRecord blob = File("file", bytes);
  EXPECT_EQ(How(**store, blob), "sent");
  EXPECT_TRUE(Read(**store, blob) == bytes);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_THAT(warnings[0], HasSubstr("found status 413 (too large), a web page"));
  EXPECT_THAT(Uploads(), ElementsAre("POST 202", "POST 202", "PATCH 202", "PATCH 202", "PATCH 202",
                                     "PATCH 202", "PATCH 202", "PATCH 202", "PUT 201"));
}

}  // namespace
}  // namespace moepack::registry
