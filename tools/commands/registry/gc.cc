#include "manifest/registry/gc.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"

namespace moepack::cli {
namespace gc_command {
namespace {

using registry::GcReport;
using registry::Reference;

constexpr uint64_t kDay = 24 * 3600;  // seconds
constexpr uint64_t kMaxDays = 100'000;

struct Arguments {
  std::string place;
  size_t days = 7;
  registry::GcOptions gc;
  bool json = false;
};

Result<std::string> DirectoryOf(const std::string& text) {
  SHARD_TRY(const Reference reference, registry::ParseReference(text));
  std::error_code error;
  const bool here = std::filesystem::exists(text, error);
  const bool is_server = reference.kind == Reference::Kind::kFiles && !here &&
                         registry::MeantReference(text).starts_with("oci://");
  if (reference.kind == Reference::Kind::kServer || is_server ||
      reference.kind == Reference::Kind::kWebLayout) {
    return Error{Code::kUnsupported,
                 Cat(Shown(text), ": gc works on layouts only; give layout:DIR"),
                 "a registry has its own garbage collection, which its operator runs"};
  }
  const bool whole = reference.tag.empty() && reference.digest.empty();
  if (reference.kind == Reference::Kind::kLayout && whole) return reference.place;
  return Error{
      Code::kInvalidArgument,
      Cat(Shown(text), whole ? ": gc works on layouts only; give layout:DIR"
                             : ": gc cleans the whole layout; leave out the tag or digest"),
      whole ? here ? "" : registry::MeantReferenceHint(text)
            : Cat("name ", ShellWord(registry::ReferenceText(reference.With(""))))};
}

std::string ReportLine(const Arguments& arguments, const GcReport& report) {
  const uint64_t removed = report.removed_bytes(), freed = report.freed_bytes();
  const char* verb = arguments.gc.dry_run ? "would remove " : "removed ";
  std::string text = Cat(verb, Plural(report.removed.size(), "file"), ": ", ExactBytes(removed));
  if (freed < removed)
    text += Cat(", of which ", ExactBytes(freed), arguments.gc.dry_run ? " would be" : " are",
                " free: the others have further hard links");
  text += Cat("; kept ", Plural(report.kept_blobs, "blob"), ", ", ExactBytes(report.kept_bytes));
  if (report.kept_partial > 0)
    text += Cat(", and ", Plural(report.kept_partial, "partial file"), " to resume from");
  if (!report.signatures.empty())
    text += Cat("; ", verb, Plural(report.signatures.size(), "signature"),
                " of manifests that are gone");
  return text;
}

std::string ReportText(const Arguments& arguments, const GcReport& report) {
  Table table({"file", ">bytes", "frees"});
  for (const GcReport::Removed& one : report.removed)
    table.Row(
        {one.file, FormatCount(one.bytes), one.last_link ? "yes" : "no, has other hard links"});
  return Cat(table.empty() ? "" : table.Render() + "\n", ReportLine(arguments, report), "\n");
}

Json ReportJson(const Arguments& arguments, const GcReport& report) {
  Json removed = Json::array();
  for (const GcReport::Removed& one : report.removed)
    removed.push_back({{"file", one.file}, {"bytes", one.bytes}, {"last_link", one.last_link}});
  return {{"reference", arguments.place},        {"dry_run", arguments.gc.dry_run},
          {"removed", std::move(removed)},       {"bytes_removed", report.removed_bytes()},
          {"bytes_freed", report.freed_bytes()}, {"kept_blobs", report.kept_blobs},
          {"bytes_kept", report.kept_bytes},     {"kept_partial_files", report.kept_partial},
          {"left_alone", report.left_alone},     {"signatures_removed", report.signatures}};
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_TRY(const std::string directory, DirectoryOf(arguments.place));
  arguments.gc.older_than = arguments.days * kDay;
  SHARD_TRY(const GcReport report, registry::CollectGarbage(directory, arguments.gc));
  for (const std::string& file : report.left_alone)
    PrintWarnings(
        {Cat(Shown(directory), "/", Shown(file), ": it is not a blob, and was left alone")});
  SHARD_CHECK(arguments.json
                  ? WriteJsonResult(ReportJson(arguments, report))
                  : WriteReport(ReportText(arguments, report), ReportLine(arguments, report)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  AddReference(app, "REF", arguments->place, "layout:DIR, a layout of this machine.");
  StartSection(app, "Output");
  app.add_option("--older-than", arguments->days,
                 "Remove partial files, from which an interrupted run could resume, once they "
                 "reach this age. "
                 "Default: 7.")
      ->type_name("DAYS")
      ->transform(AsCount(0, kMaxDays));
  AddDryRun(app, arguments->gc.dry_run);
  AddJson(app, arguments->json);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace gc_command

constinit const Command kGc = {
    "gc",
    "Deletes the blobs of a layout that no tag refers to",
    "Follows every manifest of index.json, and removes the blobs that none of them refers to, "
    "signatures of manifests that are gone, leftovers of killed runs, and old partial files. If a "
    "manifest cannot be read, nothing is "
    "removed. Meanwhile a lock prevents publishing to the layout. A pull takes no lock: if it "
    "reads a blob "
    "that is being removed, it fails and leaves nothing behind.",
    {"moepack gc layout:models --dry-run", "moepack gc layout:mirror --older-than 1"},
    {"--older-than", "--dry-run", "--json"},
    gc_command::Bind};

}  // namespace moepack::cli
