#include "manifest/registry/publish.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/publish_files.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/base/table.h"
#include "tools/options/link_option.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"
#include "tools/options/source.h"
#include "tools/options/upload_options.h"
#include "tools/reports/store_report.h"

namespace moepack::cli {
namespace publish_command {
namespace {

using registry::PublishFilesReport;
using registry::StoreReport;

struct Arguments {
  std::string distribution, target;
  std::string directory;          // of --to-dir
  registry::Reference reference;  // `target`, once it is parsed
  RegistryArguments registry;
  registry::UploadOptions upload;
  registry::PutOptions publish;
  bool json = false;

  std::string shown() const {
    return registry::ReferenceText(reference.With(reference.tag_or_default()));
  }
};

// REQUIRES: the report has a group.
std::string PullCommand(const Arguments& arguments, const StoreReport& report) {
  const registry::Reference& to = arguments.reference;
  const std::string pinned = registry::ReferenceText(to.With(to.tag_or_default(), report.digest()));
  const std::string group = Cat(*report.group);
  return ShellCommand({"moepack", "pull", pinned, "--group", group, "-o", "pulled-" + group});
}

std::string ReportLine(const Arguments& arguments, const StoreReport& report, double seconds) {
  const bool dry_run = arguments.publish.dry_run;
  return Cat(dry_run ? "would publish " : "published ", Shown(arguments.shown()), ": ",
             BytesText(report, dry_run), dry_run ? "" : Cat("; in ", FormatElapsed(seconds)));
}

std::string ReportText(const Arguments& arguments, const StoreReport& report, double seconds) {
  const bool dry_run = arguments.publish.dry_run;
  std::string text = Cat(BlobTable(report), "\n", TagTable(report), "\n",
                         ReportLine(arguments, report, seconds), "\n");
  if (!report.absent.empty())
    text += Cat("not complete; absent: ", moepack::Join(report.absent, ", "), "\n");
  if (!dry_run && report.group) text += Cat("\nnext:\n  ", PullCommand(arguments, report), "\n");
  return text;
}

Json ReportJson(const Arguments& arguments, const StoreReport& report) {
  Json document = {{"distribution", arguments.distribution},
                   {"reference", arguments.shown()},
                   {"dry_run", arguments.publish.dry_run}};
  AddStoreJson(report, document);
  document["absent"] = report.absent;
  if (!arguments.publish.dry_run && report.group)
    document["pull_command"] = PullCommand(arguments, report);
  return document;
}

// ---- Plain files

// The user replaces "owner/name" by the repository's name.
std::string UploadCommand(const std::string& out) {
  return ShellCommand({"hf", "upload", "owner/name", PathArgument(out)});
}

std::string PullFilesCommand(uint32_t of_group) {
  const std::string group = Cat(of_group);
  return ShellCommand(
      {"moepack", "pull", "hf://owner/name", "--group", group, "-o", "pulled-" + group});
}

std::string FilesLine(const std::string& out, const PublishFilesReport& report, bool dry_run,
                      double seconds) {
  return Cat(dry_run ? "would lay out " : "laid out ", ExactBytes(report.total_bytes()), " in ",
             Shown(out), dry_run ? "" : Cat(" in ", FormatElapsed(seconds)));
}

std::string FilesText(const std::string& out, const PublishFilesReport& report, bool dry_run,
                      double seconds) {
  Table files({"file", ">bytes", "how"});
  for (const PublishFilesReport::File& file : report.files)
    files.Row({file.name, FormatCount(file.bytes), file.how});
  std::string text = Cat(files.Render(), "\n", FilesLine(out, report, dry_run, seconds), "\n");
  if (!report.absent.empty())
    text += Cat("not complete; absent: ", moepack::Join(report.absent, ", "), "\n");
  if (dry_run) return text;
  text += Cat("\nnext, with the name of your repository:\n  ", UploadCommand(out), "\n");
  if (report.group) text += Cat("and then every node:\n  ", PullFilesCommand(*report.group), "\n");
  return text;
}

Json FilesJson(const std::string& distribution, const std::string& out,
               const PublishFilesReport& report, bool dry_run) {
  Json files = Json::array();
  for (const PublishFilesReport::File& file : report.files) {
    files.push_back({{"file", file.name}, {"bytes", file.bytes}});
    if (!file.how.empty()) files.back()["how"] = file.how;
  }
  Json document = {{"distribution", distribution}, {"directory", out},
                   {"dry_run", dry_run},           {"bytes", report.total_bytes()},
                   {"files", std::move(files)},    {"absent", report.absent}};
  if (!dry_run) document["upload_command"] = UploadCommand(out);
  return document;
}

// Without a store there are no tags and no views.
Status CheckFilesUse(const Arguments& arguments) {
  const char* idle = !arguments.target.empty()                ? "REF"
                     : !arguments.publish.views               ? "--no-views"
                     : !arguments.publish.moving_tags.empty() ? "--moving-tag"
                                                              : nullptr;
  if (idle != nullptr) {
    return Error{Code::kInvalidArgument, Cat(idle, " has no effect beside --to-dir"),
                 "--to-dir writes plain files, which have no tags: leave one of the two out"};
  }
  SHARD_CHECK(CheckRegistryUse(arguments.registry, arguments.directory));
  return CheckUploadUse(arguments.upload, false, arguments.directory);
}

// Lays out the distribution and prints what was done and how to continue.
Result<int> RunToDirectory(Arguments& arguments) {
  SHARD_CHECK(CheckFilesUse(arguments));
  const std::string &distribution = arguments.distribution, &out = arguments.directory;
  const bool dry_run = arguments.publish.dry_run;
  Progress progress("publishing");
  arguments.publish.pack.progress = progress.Shows();
  SHARD_TRY(const PublishFilesReport report,
            registry::PublishFiles(distribution, out, arguments.publish));
  const double seconds = progress.seconds();
  progress.Clear();
  PrintWarnings(report.warnings);
  SHARD_CHECK(arguments.json ? WriteJsonResult(FilesJson(distribution, out, report, dry_run))
                             : WriteReport(FilesText(out, report, dry_run, seconds),
                                           FilesLine(out, report, dry_run, seconds)));
  return kExitDone;
}

// ----

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  if (!arguments.directory.empty()) {
    SHARD_CHECK(CheckIsLocal(arguments.distribution));
    return RunToDirectory(arguments);
  }
  if (arguments.target.empty()) {
    return Error{Code::kInvalidArgument, "give REF or --to-dir",
                 "name where to publish, such as layout:models:v1"};
  }
  SHARD_TRY(NamedStore named, ParseNamed(arguments.target, arguments.registry, arguments.upload));
  arguments.reference = std::move(named.reference);
  arguments.publish.access = std::move(named.access);
  SHARD_CHECK(CheckLinkUse(arguments.publish.link, arguments.reference));
  SHARD_CHECK(CheckUploadUse(arguments.upload,
                             arguments.reference.kind == registry::Reference::Kind::kServer,
                             WithoutSecrets(arguments.target)));
  SHARD_CHECK(CheckIsLocal(arguments.distribution));
  Progress progress("publishing");
  arguments.publish.pack.progress = progress.Shows();
  SHARD_TRY(const StoreReport report,
            registry::Publish(arguments.distribution, arguments.reference, arguments.publish));
  const double seconds = progress.seconds();
  progress.Clear();
  PrintWarnings(report.warnings);
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(arguments, report))
                             : WriteReport(ReportText(arguments, report, seconds),
                                           ReportLine(arguments, report, seconds)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  registry::PutOptions& options = arguments->publish;
  app.add_option("DIST", arguments->distribution, "The directory of a distribution.")->required();
  AddReference(app, "REF", arguments->target,
               "Where to publish: oci://host[:port]/repository[:tag], a registry, or "
               "layout:DIR[:tag], a local OCI image layout directory, which is created if "
               "necessary. Default tag: latest.");
  app.get_option("REF")->required(false);
  StartSection(app, "Input");
  app.add_flag(
      "--allow-incomplete", options.allow_incomplete,
      "Publish a distribution that was built without some parts (--only), with the parts that "
      "it has. A directory that pull made is refused: its distribution.json lists them "
      "all.");
  StartSection(app, "Output");
  app.add_option("--to-dir", arguments->directory,
                 "Instead of REF: write the distribution here as plain files, with "
                 ".gitattributes for Git LFS, to upload them to the Hugging Face Hub.")
      ->type_name("DIR")
      ->check([](const std::string& directory) {
        return directory.empty() ? "expected a directory, found none" : "";
      });
  app.add_flag("!--no-views", options.views,
               "Publish the set only. Default: also a manifest for each group, tagged <tag>-g000 "
               "and so on, with which any OCI client fetches one node's files.");
  AddLink(app, options.link,
          {"How bundles get into the layout", {"auto", "hardlink", "reflink", "copy"}});
  app.add_option("--moving-tag", options.moving_tags,
                 "Also set this tag, and move it if it names something else. Repeatable.")
      ->type_name("TAG")
      ->allow_extra_args(false)
      ->check([](const std::string& tag) {
        return registry::IsTag(tag) ? "" : Cat(Quoted(tag), " is not a tag");
      });
  app.add_flag("--force", options.force,
               "Move tags that name something else. With --to-dir: replace the output.");
  AddJobs(app, options.pack.jobs);
  AddDryRun(app, options.dry_run);
  AddJson(app, arguments->json);
  AddRegistryOptions(app, arguments->registry);
  AddUploadOptions(app, arguments->upload);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace publish_command

constinit const Command kPublish = {
    "publish",
    "Puts a distribution into a registry or an OCI image layout",
    "Writes each file as a blob, and a ModelPack manifest that names them, into a registry or an "
    "OCI image layout directory. Equal distributions give equal digests. Every file is compared "
    "with its SHA-256 on the way, blobs that are there are not sent or written again, and tags, "
    "which make all of it visible, are set last. The command to pull one group is printed. With "
    "--to-dir it writes plain files for `hf upload` instead.",
    {"moepack publish out layout:models:v1",
     "moepack publish out oci://registry.example/team/model:v1-o1 --moving-tag v1"},
    {"--moving-tag", "--to-dir", "--link", "--mount-from", "--allow-incomplete", "--username",
     "--password-stdin", "--dry-run", "--force", "--json"},
    publish_command::Bind};

}  // namespace moepack::cli
