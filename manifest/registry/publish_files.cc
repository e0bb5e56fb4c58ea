#include "manifest/registry/publish_files.h"

#include <algorithm>
#include <cctype>

#include "libshard/base/digest.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/parallel.h"
#include "libshard/base/progress.h"
#include "libshard/base/text/text.h"
#include "manifest/document/corrupt.h"
#include "manifest/document/parts.h"
#include "manifest/registry/published_parts.h"
#include "manifest/registry/store/place_file.h"
#include "manifest/write/bundle.h"
#include "manifest/write/front_matter.h"
#include "manifest/write/output_path.h"
#include "manifest/write/stated_file.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;
using File = PublishFilesReport::File;

constexpr const char* kLfs = " filter=lfs diff=lfs merge=lfs -text\n";
constexpr const char* kWritten = "written";
// Weights, and tokenizers that are not text.
constexpr std::string_view kLfsEnds[] = {".gguf", ".safetensors", ".model"};

bool HasLfsEnd(std::string_view name) {
  return std::any_of(std::begin(kLfsEnds), std::end(kLfsEnds),
                     [&](std::string_view end) { return name.ends_with(end); });
}

// A pattern that matches this path, whatever it contains: '?' matches one byte.
std::string GitPattern(std::string_view path) {
  std::string pattern = "/";
  for (const char c : path) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 ||
                       std::string_view("._-/").find(c) != std::string_view::npos;
    pattern += plain ? c : '?';
  }
  return pattern;
}

// A file of the output, with its stated digest or its text.
struct OutputItem {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;  // "" for a text
  std::string text = {};
  bool bundle = false;
};

void AddText(const std::string& name, std::string text, std::vector<OutputItem>& items) {
  items.push_back({name, text.size(), "", std::move(text)});
}

std::vector<File> FilesOf(const std::vector<OutputItem>& items) {
  std::vector<File> files;
  for (const OutputItem& item : items) files.push_back({item.name, item.bytes});
  return files;
}

std::vector<OutputItem> ListItems(const PublishedParts& parts) {
  const manifest::Manifest& manifest = parts.manifest;
  std::vector<OutputItem> items;
  AddText(manifest::kManifestFile, parts.text, items);
  for (const manifest::AssetRecord& asset : manifest.assets)
    items.push_back({asset.file, asset.size, asset.sha256});
  for (const manifest::BundleRecord& bundle : manifest.bundles)
    items.push_back({bundle.file, bundle.size, bundle.sha256, "", true});
  const std::string readme =
      parts.readme.empty() ? manifest::DistributionReadme(manifest) : parts.readme;
  AddText(manifest::kReadmeFile, manifest::WithFrontMatter(manifest, readme), items);
  AddText(manifest::kGitAttributesFile, GitAttributes(FilesOf(items)), items);
  return items;
}

// Places one file and returns how.
Result<std::string> PlaceItem(const PublishedParts& parts, const OutputItem& item, LinkKind link,
                              const InsideDirectory& files, ProgressCounter& progress) {
  SHARD_CHECK(files.Remove(item.name));  // left by an earlier run that was killed
  if (item.sha256.empty()) {
    SHARD_CHECK(files.WriteText(item.name, item.text));
    return std::string(kWritten);
  }
  const fs::path path(item.name);
  const std::string folder = path.parent_path().string();
  SHARD_TRY(const InsideDirectory directory,
            folder.empty() ? InsideDirectory::Open(files.path()) : files.MakeDirectories(folder));
  SHARD_TRY(const PlacedFile placed,
            PlaceFile(*parts.tree, item.name, directory, path.filename().string(),
                      item.bundle ? link : LinkKind::kCopy,
                      [&](uint64_t bytes) { progress.Add(bytes); }));
  if (placed.sha256 == item.sha256) return std::string(manifest::LinkName(placed.how));
  return manifest::NameCorrupt(parts.tree->name(),
                               Error{Code::kMismatch,
                                     Cat(parts.tree->NameOf(item.name), ": sha256: expected ",
                                         item.sha256, ", found ", placed.sha256),
                                     manifest::kCorruptHint});
}

Status PlaceItems(const PublishedParts& parts, const std::vector<OutputItem>& items,
                  const PutOptions& options, StagingDirectory& staging,
                  PublishFilesReport& report) {
  uint64_t total = 0;
  for (const OutputItem& item : items) {
    staging.Expect(item.name);
    total += item.sha256.empty() ? 0 : item.bytes;
  }
  ProgressCounter progress(options.pack.progress, total);
  const size_t jobs = ThreadsForFiles(options.pack.jobs);
  return ParallelFor(items.size(), jobs, [&](size_t i) -> Status {
    SHARD_CHECK(CheckInterrupt());
    SHARD_TRY(report.files[i].how,
              PlaceItem(parts, items[i], options.link.value_or(LinkKind::kAuto), staging.files(),
                        progress));
    return Ok();
  });
}

}  // namespace

uint64_t PublishFilesReport::total_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes;
  return bytes;
}

std::string GitAttributes(const std::vector<File>& files) {
  std::string text;
  for (const std::string_view end : kLfsEnds) text += Cat("*", end, kLfs);
  for (const File& file : files) {
    if (file.bytes > kMaxGitFile && !HasLfsEnd(file.name)) text += GitPattern(file.name) + kLfs;
  }
  return text;
}

Result<PublishFilesReport> PublishFiles(const std::string& distribution, const std::string& out,
                                        const PutOptions& options) {
  SHARD_CHECK(manifest::CheckOutsideDistribution(out, distribution));
  SHARD_TRY(const PublishedParts parts, ReadPublished(distribution));
  PublishFilesReport report;
  report.absent = AbsentWords(parts.manifest);
  SHARD_CHECK(CheckWhole(distribution, report.absent, options.allow_incomplete));
  report.group = FirstGroupThere(parts.manifest);
  const std::vector<OutputItem> items = ListItems(parts);
  for (const OutputItem& item : items) {
    if (!item.sha256.empty()) SHARD_CHECK(CheckPublishedSize(parts, item.name, item.bytes));
  }
  report.files = FilesOf(items);
  if (options.dry_run) {
    SHARD_CHECK(manifest::CheckReplaceable(out, true));
    return report;
  }
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Open(out, manifest::OwnOutput()));
  SHARD_CHECK(manifest::CheckReplaceable(out, options.force));
  SHARD_CHECK(staging.Begin(Sha256Hex(Cat("files ", Sha256Hex(parts.text)))));
  SHARD_CHECK(PlaceItems(parts, items, options, staging, report));
  SHARD_CHECK(staging.Publish(options.force));
  report.warnings = staging.warnings();
  return report;
}

}  // namespace moepack::registry
