#include "manifest/registry/pull_target.h"

#include "libshard/base/digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "manifest/document/manifest_json.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

std::map<std::string, std::string> FilesByDigest(const manifest::Manifest& manifest) {
  std::map<std::string, std::string> files;
  for (const manifest::BundleRecord& bundle : manifest.bundles)
    files.emplace(DigestOf(bundle.sha256), bundle.file);
  for (const manifest::AssetRecord& asset : manifest.assets)
    files.emplace(DigestOf(asset.sha256), asset.file);
  return files;
}

}  // namespace

Result<PullTarget> LookAtTarget(const std::string& out, std::string_view distribution_text) {
  PullTarget target;
  SHARD_TRY(const bool taken, IsTaken(out));
  if (!taken) return target;
  target.state = PullTarget::State::kOther;
  // What cannot be read now is not "other": it could be what --force would then replace.
  const auto directory = InsideDirectory::Open(out);
  if (!directory && directory.error().code == Code::kIo) return directory.error();
  if (!directory) return target;
  const auto text = directory->ReadText(manifest::kManifestFile, manifest::kMaxManifestBytes);
  if (!text && text.error().code == Code::kIo) return text.error();
  if (!text) return target;
  SHARD_TRY(target.lock, ReadLock(out));
  target.distribution_sha256 = Sha256Hex(*text);
  if (*text == distribution_text) {
    target.state = PullTarget::State::kSame;
  } else if (const auto manifest = manifest::ParseManifest(out, *text)) {
    target.files = FilesByDigest(*manifest);
  }
  return target;
}

}  // namespace moepack::registry
