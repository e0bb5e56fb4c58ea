#include "manifest/registry/server/server_store.h"

#include <algorithm>
#include <optional>

#include "libshard/base/files/memory_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/transfer/fetch_file.h"

namespace moepack::registry {
namespace {

constexpr size_t kTagsAtOnce = 4;

Error WrongSize(const std::string& what, uint64_t expected, uint64_t found) {
  return {Code::kCorrupt, Cat(what, ": size: expected ", expected, " bytes, found ", found),
          kCorruptOnServerHint};
}

}  // namespace

ServerStore::ServerStore(std::shared_ptr<const RegistryClient> client, UploadOptions upload)
    : client_(std::move(client)), blobs_(client_), uploader_(*client_, std::move(upload)) {}

// HEAD costs nothing if reading manifests counts towards a limit. Its answer is not trusted but
// looked up by digest.
Result<BlobRecord> ServerStore::FindTag(const std::string& tag) const {
  SHARD_TRY(const std::optional<Present> present, client_->HeadManifest(tag));
  if (present && present->size && IsDigest(present->digest) && !present->media_type.empty())
    return BlobRecord{present->media_type, present->digest, *present->size};
  SHARD_TRY(ManifestText manifest, client_->GetManifest(tag));
  return std::move(manifest.record);
}

Result<std::string> ServerStore::ReadManifest(const BlobRecord& manifest) const {
  SHARD_TRY(ManifestText found, client_->GetManifest(manifest.digest));
  if (manifest.size != 0 && manifest.size != found.record.size)
    return WrongSize(Cat(name(), "@", manifest.digest), manifest.size, found.record.size);
  return std::move(found.text);
}

Result<std::vector<Tagged>> ServerStore::List() const {
  SHARD_TRY(std::vector<std::string> tags, client_->ListTags());
  std::sort(tags.begin(), tags.end());
  std::vector<std::optional<Tagged>> found(tags.size());
  const Status all = ParallelFor(tags.size(), kTagsAtOnce, [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    Result<BlobRecord> manifest = FindTag(tags[i]);
    // It may have been deleted since the list was made.
    if (!manifest && manifest.error().code == Code::kNotFound) return Ok();
    if (!manifest) return std::move(manifest).error();
    found[i] = Tagged{tags[i], *std::move(manifest)};
    return Ok();
  });
  SHARD_CHECK(all);
  std::vector<Tagged> out;
  for (std::optional<Tagged>& tagged : found) {
    if (tagged) out.push_back(*std::move(tagged));
  }
  return out;
}

Status ServerStore::CheckBlob(const BlobRecord& blob) const {
  SHARD_TRY(const std::optional<Present> present, client_->HeadBlob(blob.digest));
  if (!present) {
    return Error{Code::kNotFound,
                 Cat(NameOf(blob), ": expected a blob, found none, or no permission (status 404)"),
                 "publish the distribution to the registry again"};
  }
  if (!present->size) return Ok();
  if (*present->size != blob.size) return WrongSize(NameOf(blob), blob.size, *present->size);
  blobs_.Know(blob.digest, blob.size, NameOf(blob));
  return Ok();
}

Result<Added> ServerStore::AddFile(const SourceTree& from, const std::string& file,
                                   const BlobRecord& blob, manifest::LinkKind,
                                   const PieceDone& read) {
  SHARD_TRY(const ByteSourcePtr source, from.Open(file));
  return uploader_.Upload(*source, blob, read);
}

Result<Added> ServerStore::AddText(const BlobRecord& blob, std::string_view text) {
  const MemorySource source(NameOf(blob), std::string(text));
  return uploader_.Upload(source, blob, {});
}

Result<Added> ServerStore::AddManifest(const BlobRecord& manifest, std::string_view text) {
  SHARD_TRY(const std::optional<Present> present, client_->HeadManifest(manifest.digest));
  const bool there = present && present->size == manifest.size;
  if (there) return Added{"there"};
  SHARD_CHECK(client_->PutManifest(manifest.digest, manifest, text));
  return Added{"sent", present.has_value()};
}

// Most registries ignore If-Match. So the tag is looked up right before, which leaves others the
// time of one request, and a registry that refuses although it names the right manifest compares
// something else, and is told without a condition.
Result<bool> ServerStore::Replace(const NewTag& tag) const {
  for (const bool conditional : {true, false}) {
    const auto now = FindTag(tag.tag);
    if (!now && now.error().code != Code::kNotFound) return now.error();
    if ((now ? now->digest : "") != *tag.replaces) return false;
    const std::string condition =
        now ? Cat("If-Match: \"", now->digest, "\"") : std::string("If-None-Match: *");
    SHARD_TRY(const bool done, client_->PutManifestIf(conditional ? condition : "", tag.tag,
                                                      tag.manifest, tag.text));
    if (done) return true;
  }
  return false;
}

Result<std::vector<std::string>> ServerStore::SetTags(const std::vector<NewTag>& tags) {
  std::vector<std::string> left;
  for (const NewTag& tag : tags) {
    SHARD_CHECK(CheckInterrupt());
    if (!tag.replaces) {
      SHARD_CHECK(client_->PutManifest(tag.tag, tag.manifest, tag.text));
      continue;
    }
    SHARD_TRY(const bool replaced, Replace(tag));
    if (!replaced) left.push_back(tag.tag);
  }
  return left;
}

Result<std::shared_ptr<ServerStore>> OpenServer(const std::string& host_and_repository,
                                                const ServerOptions& options) {
  for (const std::string& from : options.upload.mount_from) {
    if (IsRepositoryName(from)) continue;
    return Error{Code::kInvalidArgument,
                 Cat("repository to mount from: expected the name of one of the same registry, "
                     "found ",
                     Quoted(from)),
                 "write it without the host and without a tag: team/model"};
  }
  SHARD_TRY(Repository repository, ParseRepository(host_and_repository, options.http.plain_http));
  const auto client =
      std::make_shared<RegistryClient>(std::make_shared<remote::HttpClient>(options.http),
                                       std::move(repository), options.authorizer);
  SHARD_CHECK(client->Ping());
  return std::make_shared<ServerStore>(client, options.upload);
}

}  // namespace moepack::registry
