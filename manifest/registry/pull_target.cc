#include "manifest/registry/pull_target.h"

#include "libshard/base/digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "manifest/document/manifest_json.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

using manifest::Manifest;

std::map<std::string, std::string> FilesByDigest(const manifest::Manifest& manifest) {
  std::map<std::string, std::string> files;
  for (const manifest::BundleRecord& bundle : manifest.bundles)
    files.emplace(DigestOf(bundle.sha256), bundle.file);
  for (const manifest::AssetRecord& asset : manifest.assets)
    files.emplace(DigestOf(asset.sha256), asset.file);
  return files;
}

}  // namespace

Result<PullTarget> LookAtTarget(const std::string& out, const PulledSet& set) {
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
  SHARD_TRY(target.lock, manifest::ReadLock(out));
  const auto manifest = text ? manifest::ParseManifest(out, *text) : Result<Manifest>(text.error());
  if (text) target.distribution_sha256 = Sha256Hex(*text);
  const bool damaged = !manifest && target.lock && target.lock->digest == set.digest;
  if (damaged || (text && *text == set.distribution_text)) {
    target.state = PullTarget::State::kSame;
  } else if (manifest) {
    target.files = FilesByDigest(*manifest);
  }
  return target;
}

}  // namespace moepack::registry
