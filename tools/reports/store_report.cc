#include "tools/reports/store_report.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

using registry::StoreReport;

// Which of the new bytes took space or time: ", 1.2 GB (...) of them sent".
std::string HowText(const StoreReport& report) {
  std::string text;
  for (const char* how : {"copy", "fetched", "sent", "mounted"}) {
    const uint64_t bytes = report.bytes_by(how);
    const std::string_view word = how == std::string_view("copy") ? "copied" : how;
    if (bytes > 0) text += Cat(", ", ExactBytes(bytes), " of them ", word);
  }
  return text;
}

}  // namespace

std::string TagState(const StoreReport::Tag& tag) {
  if (tag.before.empty()) return "new";
  return tag.before == tag.digest ? "as it was" : "moved";
}

std::string BlobTable(const StoreReport& report) {
  Table blobs({"blob", ">bytes", "how"});
  for (const StoreReport::Blob& blob : report.blobs)
    blobs.Row({blob.name, FormatCount(blob.bytes), blob.how});
  return blobs.Render();
}

std::string TagTable(const StoreReport& report) {
  Table tags({"tag", "state", "manifest"});
  for (const StoreReport::Tag& tag : report.tags) tags.Row({tag.tag, TagState(tag), tag.digest});
  return tags.Render();
}

std::string TagLine(const StoreReport& report) {
  if (report.tags.empty()) return report.digest();
  const StoreReport::Tag& first = report.tags.front();
  const size_t others = report.tags.size() - 1;
  return Cat(Shown(first.tag), " is ", first.digest,
             others == 0 ? "" : Cat(", and ", others, " more"));
}

std::string BytesText(const StoreReport& report, bool dry_run) {
  return Cat(ExactBytes(report.added_bytes()), " new", dry_run ? "" : HowText(report), "; ",
             ExactBytes(report.there_bytes()), " already there");
}

Json TagsJson(const StoreReport& report) {
  Json tags = Json::array();
  for (const StoreReport::Tag& tag : report.tags) {
    tags.push_back({{"tag", tag.tag}, {"digest", tag.digest}, {"state", TagState(tag)}});
    if (tag.group) tags.back()["group"] = *tag.group;
  }
  return tags;
}

void AddStoreJson(const StoreReport& report, Json& document) {
  Json blobs = Json::array();
  for (const StoreReport::Blob& blob : report.blobs) {
    blobs.push_back({{"blob", blob.name}, {"digest", blob.digest}, {"bytes", blob.bytes}});
    if (!blob.how.empty()) blobs.back()["how"] = blob.how;
  }
  document["digest"] = report.digest();
  document["tags"] = TagsJson(report);
  document["blobs"] = std::move(blobs);
  document["bytes_new"] = report.added_bytes();
  document["bytes_copied"] = report.bytes_by("copy");
  document["bytes_fetched"] = report.bytes_by("fetched");
  document["bytes_sent"] = report.bytes_by("sent");
  document["bytes_mounted"] = report.bytes_by("mounted");
  document["bytes_there"] = report.there_bytes();
}

}  // namespace moepack::cli
