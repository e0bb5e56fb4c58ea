#include "manifest/registry/copy.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/interrupt.h"
#include "tools/base/output.h"
#include "tools/base/progress.h"
#include "tools/base/sections.h"
#include "tools/options/link_option.h"
#include "tools/options/options.h"
#include "tools/options/reference_option.h"
#include "tools/options/upload_options.h"
#include "tools/reports/store_report.h"

namespace moepack::cli {
namespace copy_command {
namespace {

using registry::Reference;
using registry::StoreReport;

struct Arguments {
  std::string source, target;
  Reference from, to;  // the same, once they are parsed
  RegistryArguments registry;
  registry::UploadOptions upload;
  registry::PutOptions copy;
  bool json = false;

  // Shown with the copy's tag.
  std::string shown(const StoreReport& report) const {
    return registry::ReferenceText(to.With(report.tags[0].tag));
  }
};

std::string HostOf(const Reference& reference) {
  return reference.place.substr(0, reference.place.find('/'));
}

// One login is not sent to two registries.
Status CheckOneLogin(const Arguments& arguments) {
  const RegistryArguments& login = arguments.registry;
  const bool given = !login.username.empty() || login.password_stdin ||
                     !login.password_file.empty() || !login.token_file.empty();
  const bool both = arguments.from.kind == Reference::Kind::kServer &&
                    arguments.to.kind == Reference::Kind::kServer;
  if (!given || !both || HostOf(arguments.from) == HostOf(arguments.to)) return Ok();
  return Error{
      Code::kInvalidArgument, "login options apply to one registry, but FROM and TO name two",
      "leave them out: the credentials of both registries are read from ~/.docker/config.json"};
}

Status ParseReferences(Arguments& arguments) {
  SHARD_TRY(arguments.from, registry::ParseReference(arguments.source));
  SHARD_TRY(arguments.to, registry::ParseReference(arguments.target));
  SHARD_CHECK(CheckOneLogin(arguments));
  // Options for registries have an effect if one of them is a registry.
  const bool by_target = arguments.to.kind == Reference::Kind::kServer;
  SHARD_TRY(NamedStore named, ParseNamed(by_target ? arguments.target : arguments.source,
                                         arguments.registry, arguments.upload));
  arguments.copy.access = std::move(named.access);
  SHARD_CHECK(CheckLinkUse(arguments.copy.link, arguments.from));
  SHARD_CHECK(CheckLinkUse(arguments.copy.link, arguments.to));
  return CheckUploadUse(arguments.upload, by_target, WithoutSecrets(arguments.target));
}

std::string ReportLine(const Arguments& arguments, const StoreReport& report, double seconds) {
  const bool dry_run = arguments.copy.dry_run;
  return Cat(dry_run ? "would copy to " : "copied to ", Shown(arguments.shown(report)), ": ",
             BytesText(report, dry_run), dry_run ? "" : Cat("; in ", FormatElapsed(seconds)));
}

std::string ReportText(const Arguments& arguments, const StoreReport& report, double seconds) {
  return Cat(BlobTable(report), "\n", TagTable(report), "\n",
             ReportLine(arguments, report, seconds), "\n");
}

Json ReportJson(const Arguments& arguments, const StoreReport& report) {
  Json document = {{"from", WithoutSecrets(arguments.source)},
                   {"to", arguments.shown(report)},
                   {"dry_run", arguments.copy.dry_run}};
  AddStoreJson(report, document);
  return document;
}

Result<int> Run(Arguments& arguments) {
  StopBetweenPieces();
  SHARD_CHECK(ParseReferences(arguments));
  Progress progress("copying");
  arguments.copy.pack.progress = progress.Shows();
  SHARD_TRY(const StoreReport report, registry::Copy(arguments.from, arguments.to, arguments.copy));
  progress.Clear();
  PrintWarnings(report.warnings);
  const double seconds = progress.seconds();
  SHARD_CHECK(arguments.json ? WriteJsonResult(ReportJson(arguments, report))
                             : WriteReport(ReportText(arguments, report, seconds),
                                           ReportLine(arguments, report, seconds)));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  registry::PutOptions& options = arguments->copy;
  AddReference(app, "FROM", arguments->source,
               "What to copy: oci://host[:port]/repository[:tag][@sha256:...] of a registry, "
               "layout:DIR[:tag][@sha256:...] of this machine, layout+https://host/path[:tag] of a "
               "web server, or a distribution as files. Default tag: latest.");
  AddReference(app, "TO", arguments->target,
               "Where to: oci://host[:port]/repository[:tag], or layout:DIR[:tag], which is made "
               "if it is not there. Default tag: that of FROM.");
  StartSection(app, "Output");
  app.add_flag("!--no-views", options.views,
               "Leave out the node views of a set. Default: they are copied, tagged <tag>-g000 and "
               "so on.");
  app.add_flag("!--no-signatures", options.signatures,
               "Leave out the signatures of what is copied (tags sha256-<digits>.sig).");
  AddLink(app, options.link,
          {"How blobs get from one layout into another", {"auto", "hardlink", "reflink", "copy"}});
  app.add_flag("--force", options.force, "Move tags that name something else.");
  AddJobs(app, options.pack.jobs);
  AddDryRun(app, options.dry_run);
  AddJson(app, arguments->json);
  AddRegistryOptions(app, arguments->registry);
  AddUploadOptions(app, arguments->upload);
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace copy_command

constinit const Command kCopy = {
    "copy",
    "Copies a set between registries and layouts",
    "Copies a manifest and every blob that it names, with the node views of a set and with "
    "signatures, between any two places, without unpacking anything. Digests stay the same. Every "
    "byte is "
    "compared with its digest on the way, blobs that are there are not sent again, and tags are "
    "set last. Other OCI artifacts and images are copied, too, one manifest at a time.",
    {"moepack copy layout:models:v1 layout:mirror",
     "moepack copy layout:models:v1-g000 oci://registry.example/team/model:node-0"},
    {"--no-signatures", "--no-views", "--mount-from", "--link", "--username", "--password-stdin",
     "--dry-run", "--force"},
    copy_command::Bind};

}  // namespace moepack::cli
