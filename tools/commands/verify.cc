#include "manifest/verify/verify.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>

#include "libshard/base/files/file.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"
#include "manifest/document/node_record.h"
#include "manifest/document/pull_lock.h"
#include "manifest/verify/verify_node.h"
#include "tools/base/command.h"
#include "tools/base/exit_code.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/commands/calibrate_redo.h"
#include "tools/commands/refit_redo.h"
#include "tools/commands/registry/signature_options.h"
#include "tools/commands/verify_command.h"
#include "tools/options/options.h"
#include "tools/options/quantize_options.h"
#include "tools/options/source.h"
#include "tools/reports/ci_report.h"
#include "tools/reports/verify_report.h"

namespace moepack::cli {
namespace verify_command {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";

struct Arguments {
  std::string directory;
  manifest::VerifyOptions verify;
  OverlayArguments overlay;
  ModelOptions model;
  RemoteArguments remote;
  SignatureArguments signatures;
  RedoArguments redo;
  bool no_digests = false, verbose = false;
  ReportArguments report;
};

// Leaves only the digits.
std::string DigestProblem(std::string& text) {
  const std::string digits =
      text.starts_with(kDigestPrefix) ? Lower(text.substr(kDigestPrefix.size())) : "";
  const bool hex = digits.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (digits.size() != 64 || !hex) {
    return Cat("expected sha256: and 64 hexadecimal digits, found ", Quoted(text));
  }
  text = digits;
  return "";
}

Status Write(const Arguments& arguments, const manifest::VerifyReport& report) {
  const std::string& directory = arguments.directory;
  switch (arguments.report.kind()) {
    case ReportFormat::kJson:
      return WriteJsonResult(VerifyJson(directory, report));
    case ReportFormat::kGithub:
      return WriteResult(GithubText(VerifyCi(directory, report)));
    case ReportFormat::kJunit:
      return WriteResult(JunitText(VerifyCi(directory, report)));
    case ReportFormat::kText:
      break;
  }
  const VerifyShown shown = arguments.verbose ? VerifyShown::kAllRules : VerifyShown::kWhatWasFound;
  return WriteReport(VerifyText(directory, report, shown), VerifyLine(directory, report));
}

// A distribution on another machine is read from there.
Status OpenDistribution(Arguments& arguments) {
  if (!IsAddress(arguments.directory)) return CheckIsNoReference(arguments.directory);
  if (arguments.redo.layer) {
    return Error{Code::kInvalidArgument, "--redo cannot be used with a distribution elsewhere",
                 "pull it first"};
  }
  if (arguments.verify.cold) {
    return Error{Code::kInvalidArgument, "--cold has no effect on a distribution elsewhere",
                 "leave it out: what comes over a network is in no page cache of this machine"};
  }
  SHARD_TRY(arguments.verify.distribution, OpenSource(arguments.directory, arguments.remote));
  arguments.directory = WithoutSecrets(arguments.directory);
  return Ok();
}

// Of a directory that was pulled, only what was pulled is expected, unless something else is named.
Status ReadPulled(Arguments& arguments) {
  manifest::VerifyOptions& options = arguments.verify;
  const bool chosen =
      !options.groups.empty() || !options.overlay.empty() || !options.with_overlay || options.whole;
  if (chosen || options.distribution || manifest::IsNodeDirectory(arguments.directory)) return Ok();
  SHARD_TRY(const std::optional<manifest::PullLock> lock, manifest::ReadLock(arguments.directory));
  if (!lock) return Ok();
  options.pulled = manifest::PulledParts{Cat(arguments.directory, "/", manifest::kPullLockFile),
                                         lock->reference, lock->groups, lock->overlay};
  return Ok();
}

// Turns "10%" or "0.1" into thousandths.
std::string SampleProblem(std::string& text) {
  const bool is_percent = text.ends_with('%');
  const char* end = text.data() + text.size() - (is_percent ? 1 : 0);
  double share = 0;
  const auto [rest, problem] = std::from_chars(text.data(), end, share);
  const double per_mille = share * (is_percent ? 10 : 1000);
  if (problem != std::errc() || rest != end || !(per_mille >= 1) || per_mille > 1000)
    return Cat("expected a share from 0.1% to 100%, such as 10% or 0.1, found ", Quoted(text));
  text = std::to_string(static_cast<uint32_t>(per_mille + 0.5));
  return "";
}

void AddPartial(CLI::App& app, manifest::VerifyOptions& options) {
  CLI::Option* sample =
      app.add_option("--sample", options.sample,
                     "Read only this share of the tensors of every file above 1 MiB, at least one, "
                     "and compare their XXH3-128; the SHA-256 of these files is not compared. "
                     "Small files are read whole. For a quick check between full verifications.")
          ->type_name("SHARE")
          ->transform(CLI::Validator(SampleProblem, ""));
  app.add_option("--seed", options.seed,
                 "With --sample: a different number selects different tensors. Default: 0.")
      ->type_name("N")
      ->transform(AsCount(0, UINT32_MAX))
      ->needs(sample);
  app.add_option("--resume", options.resume_file,
                 "Record in this file which files have passed. An interrupted run resumes from it "
                 "and reads only files that have not passed or were changed since. It is removed "
                 "when everything has passed.")
      ->type_name("FILE")
      ->excludes(sample);
}

void AddReport(CLI::App& app, Arguments& arguments) {
  CLI::Option* verbose =
      app.add_flag("-v,--verbose", arguments.verbose,
                   "Show every rule, also those that hold. Default: those that failed or warned.");
  AddReportFormat(app, arguments.report);
  for (const char* name : {"--format", "--json"}) verbose->excludes(app.get_option(name));
}

// Options that control how files are read have no effect on signatures.
bool IsForSignatures(const CLI::Option& option) {
  const auto is = [&](const char* name) { return option.check_lname(name); };
  return option.get_positional() || is("help") || option.check_sname("h") || is("jobs") ||
         is("json") || is("plain-http");
}

Result<int> Run(Arguments& arguments) {
  if (IsReference(arguments.directory) || !arguments.signatures.keys.empty()) {
    const bool json = arguments.report.kind() == ReportFormat::kJson;
    arguments.signatures.registry.plain_http = arguments.remote.plain_http;
    return VerifySigned(arguments.directory, arguments.signatures, arguments.verify.jobs, json);
  }
  SHARD_CHECK(CheckRegistryUse(arguments.signatures.registry, arguments.directory));
  arguments.verify.digests = !arguments.no_digests;
  arguments.verify.overlay = arguments.overlay.version;
  arguments.verify.with_overlay = !arguments.overlay.none;
  arguments.verify.family_file = arguments.model.family_file;
  arguments.verify.config_file = arguments.model.config_file;
  SHARD_CHECK(OpenDistribution(arguments));
  SHARD_CHECK(ReadPulled(arguments));
  std::string& against = arguments.verify.against;
  if (!arguments.verify.distribution && !IsAddress(against))
    SHARD_CHECK(CheckRemoteUse(arguments.remote, arguments.directory));
  if (!against.empty()) {
    const RemoteArguments remote = IsAddress(against) ? arguments.remote : RemoteArguments();
    SHARD_TRY(arguments.verify.against_source, OpenSource(against, remote));
    against = WithoutSecrets(against);
  }
  arguments.verify.calibrated_store = CalibratedStoreFor(arguments.directory, arguments.redo);
  std::shared_ptr<const RedoInputs> redo;
  std::shared_ptr<const CalibratedRedoInputs> calibrated;
  if (RedoesCalibration(arguments.directory, arguments.redo)) {
    arguments.verify.refit_store = arguments.redo.store;
    SHARD_TRY(calibrated,
              PrepareCalibratedRedo(arguments.directory, arguments.verify, arguments.redo));
  } else {
    arguments.verify.refit_store = RefitStoreFor(arguments.directory, arguments.redo);
    if (arguments.redo.layer && !manifest::IsNodeDirectory(arguments.directory)) {
      SHARD_TRY(redo, PrepareRedo(arguments.directory, arguments.verify, arguments.redo));
    }
  }
  SHARD_TRY(manifest::VerifyReport report,
            VerifyWithProgress(arguments.directory, arguments.verify));
  if (redo) RedoRefit(*redo, report);
  if (calibrated) RedoCalibration(*calibrated, report);
  if (arguments.verify.distribution)
    NoteTraffic(*arguments.verify.distribution->tree, report.bytes);
  SHARD_CHECK(Write(arguments, report));
  CountWarnings(WarningTexts(report));
  SHARD_CHECK(CheckPassed(arguments.directory, report));
  return kExitDone;
}

std::function<Result<int>()> Bind(CLI::App& app) {
  auto arguments = std::make_shared<Arguments>();
  app.add_option("DIST", arguments->directory,
                 "The directory of a distribution, or of a node; or the address of a distribution. "
                 "With --key: a reference, oci://host/repository[:tag][@sha256:...] or "
                 "layout:DIR[:tag][@sha256:...].")
      ->required();
  StartSection(app, "Checks");
  CLI::Option* against =
      app.add_option(
             "--against", arguments->verify.against,
             "Also compare every byte with its place in this source checkpoint, or, where the "
             "type changed, with what the source gives when it is converted again.")
          ->type_name("SRC");
  CLI::Option* no_digests =
      app.add_flag("--no-digests", arguments->no_digests,
                   "Check structure, semantics and sizes only; read no tensor data.")
          ->excludes(against);
  app.add_flag(
      "--complete", arguments->verify.whole,
      "Also fail if the distribution lacks parts on purpose (it was written with --only, or pulled "
      "for some groups).");
  app.add_option("--group", arguments->verify.groups,
                 "Check only this group and what every node has (trunk, head, routers, overlay, "
                 "assets); the other groups and the remainder may be absent. May be repeated. "
                 "Default: all groups; of a directory that was pulled, those in its pulled.json.")
      ->type_name("G")
      ->allow_extra_args(false)
      ->transform(AsCount(0, kMaxGroups - 1));
  AddOverlay(app,
             "Check only this version of the overlay, or none; the others may be absent. "
             "Default: all; with --group the current one; of a directory that was pulled, the one "
             "in its pulled.json.",
             arguments->overlay);
  app.add_option("--digest", arguments->verify.digest,
                 "The SHA-256 that distribution.json must have, as build prints it. Known from "
                 "elsewhere than the files, it proves that only README.md can have changed.")
      ->type_name("sha256:HEX")
      ->transform(CLI::Validator(DigestProblem, ""));
  AddCold(app, arguments->verify.cold);
  AddPartial(app, arguments->verify);
  for (const char* name : {"--cold", "--sample", "--resume"})
    no_digests->excludes(app.get_option(name));
  for (const char* name : {"--sample", "--resume"}) against->excludes(app.get_option(name));
  AddModelOptions(app, arguments->model);
  AddRemoteOptions(app, arguments->remote);
  AddImatrices(app, arguments->verify.imatrix_files);
  AddPre(app, arguments->verify.pre);
  for (const char* name : {"--family", "--config", "--imatrix", "--pre"})
    app.get_option(name)->needs(against);
  AddRedo(app, arguments->redo);
  AddJobs(app, arguments->verify.jobs);
  AddReport(app, *arguments);
  const std::vector<CLI::Option*> others = app.get_options();
  AddSignatureOptions(app, arguments->signatures);
  for (CLI::Option* option : others) {
    if (!IsForSignatures(*option)) app.get_option("--key")->excludes(option);
  }
  return [arguments] { return Run(*arguments); };
}

}  // namespace
}  // namespace verify_command

void AddCold(CLI::App& app, bool& cold) {
  StartSection(app, "Checks");
  app.add_flag("--cold", cold,
               "Read the files from the device: the page cache is written out, dropped and, where "
               "the file system has direct reads, bypassed; the report says for how many bytes. "
               "Caches below the file system (those of a disk, a host or a file server) cannot be "
               "bypassed.");
}

Result<manifest::VerifyReport> VerifyWithProgress(const std::string& directory,
                                                  manifest::VerifyOptions options) {
  Progress progress("verifying");
  options.progress = progress.Shows();
  return manifest::IsNodeDirectory(directory) ? manifest::VerifyNode(directory, options)
                                              : manifest::VerifyDistribution(directory, options);
}

namespace {

// What helps depends on whether the files disagree with their own description, or both with what
// they were compared with.
std::string HintOfFailure(const std::string& directory, const manifest::VerifyReport& report) {
  bool files = false, digest = false, model = false;
  for (const RuleOutcome& outcome : OutcomesByRule(report)) {
    if (!outcome.failed()) continue;
    digest = digest || outcome.rule == "manifest-digest";
    model = model || outcome.rule == "source-model";
    files = files || (outcome.rule != "manifest-digest" && !outcome.rule.starts_with("source-"));
  }
  if (!files && model)
    return "the files are those that distribution.json describes, but this is not the source that "
           "they were made from";
  if (!files && digest)
    return "the files are those that distribution.json describes, but the digest is that of "
           "another one";
  std::error_code error;
  if (fs::exists(fs::path(directory) / manifest::kPullLockFile, error))
    return "run the same pull again: it replaces files that are corrupt and adds those that are "
           "missing";
  return Cat("copy these files again, or run ",
             manifest::IsNodeDirectory(directory) ? "assemble" : "build", " again with --force");
}

}  // namespace

Status CheckPassed(const std::string& directory, const manifest::VerifyReport& report) {
  if (report.passed()) return Ok();
  return Error{Code::kMismatch,
               Cat(directory, ": verification ", VerifyTotals(report), FirstOf(ErrorTexts(report))),
               HintOfFailure(directory, report)};
}

constinit const Command kVerify = {
    "verify",
    "Proves a distribution: its structure, its digests and, against its source, every byte",
    "Checks that distribution.json is well formed, that every expert is accounted for, that every "
    "node can serve its top-k, and that files and tensors have the sizes and digests it states. "
    "For a node that assemble made, checks that its files are those of moepack_node.json and make "
    "up one model. The exit status is 6 when something is wrong.",
    {"moepack verify out", "moepack verify out --against fixtures/tiny-moe --format junit"},
    {"--against", "--group", "--no-digests", "--digest", "--complete", "--sample", "--key",
     "--cold", "--format", "--verbose"},
    verify_command::Bind};

}  // namespace moepack::cli
