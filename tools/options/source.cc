#include "tools/options/source.h"

#include <filesystem>
#include <mutex>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/open_remote.h"
#include "manifest/registry/artifact/reference.h"
#include "tools/base/output.h"
#include "tools/base/sections.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kLeastCache = 1'000'000;

}  // namespace

void AddPlainHttp(CLI::App& app, bool& plain_http) {
  if (app.get_option_no_throw("--plain-http") != nullptr) return;
  app.add_flag(
      "--plain-http", plain_http,
      "Allow http:// to other machines, where anybody in between can read and change the data.");
}

void AddRemoteOptions(CLI::App& app, RemoteArguments& arguments) {
  StartSection(app, "Remote sources");
  AddPlainHttp(app, arguments.plain_http);
  app.add_option("--endpoint", arguments.endpoint,
                 "The S3 endpoint for s3:// addresses. Default: AWS_ENDPOINT_URL, or Amazon's.")
      ->type_name("URL");
  app.add_flag("--allow-full-download", arguments.full_download,
               "If a server ignores ranges, read files whole and keep them in memory: up to 1 GiB "
               "in total.");
  CLI::Option* cache = app.add_option("--cache", arguments.cache,
                                      "Keep fetched data in this directory, and do not fetch it "
                                      "again. The directory may be deleted at any time.")
                           ->type_name("DIR");
  app.add_option("--cache-size", arguments.cache_size,
                 "Upper bound for the files of --cache; the least recently used files are evicted. "
                 "Default: 20GB.")
      ->type_name("SIZE")
      ->needs(cache)
      ->transform(AsBytes(kLeastCache));
  StartSection(app, "Input");
}

Status CheckRemoteUse(const RemoteArguments& arguments, const std::string& local, const char* is) {
  const char* option = "";
  if (!arguments.endpoint.empty()) option = "--endpoint";
  if (!arguments.cache.empty()) option = "--cache";
  if (*option == '\0') return Ok();
  return Error{Code::kInvalidArgument, Cat(option, " has no effect: ", local, " is ", is),
               Cat("leave it out: it is for ", remote::SchemeStarts())};
}

Status CheckEndpointUse(const RemoteArguments& arguments, const std::string& address) {
  if (arguments.endpoint.empty() || remote::FindScheme(address) == &remote::kS3) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("--endpoint has no effect: it is for ", remote::kS3.start), "leave it out"};
}

Result<moepack::Source> OpenSource(const std::string& source, const RemoteArguments& arguments) {
  if (!IsAddress(source)) {
    SHARD_CHECK(CheckRemoteUse(arguments, source));
    SHARD_CHECK(CheckIsNoReference(source));
    SHARD_CHECK(CheckIsNoName(source));
    return LocalSource(source);
  }
  SHARD_CHECK(CheckEndpointUse(arguments, source));
  remote::RemoteOptions options;
  options.plain_http = arguments.plain_http;
  options.endpoint = arguments.endpoint;
  options.cache = arguments.cache;
  options.cache_size = arguments.cache_size;
  options.full_download = arguments.full_download;
  options.has_full_download = true;
  options.warn = [](const std::string& text) {
    // Any thread may warn.
    static std::mutex mutex;
    const std::lock_guard lock(mutex);
    PrintWarnings({text});
  };
  return remote::OpenAddress(source, options);
}

Status CheckIsLocal(const std::string& source) {
  const remote::Scheme* const scheme = remote::FindScheme(source);
  if (scheme == nullptr) return Ok();
  const std::string address = WithoutSecrets(source);
  return Error{Code::kUnsupported, Cat(address, " is an address; give a path on this machine"),
               Cat("this command reads local files only: ", scheme->download(address))};
}

Status CheckIsNoName(const std::string& source) {
  std::string hint = remote::MeantAddressHint(source);
  if (hint.empty()) return Ok();
  SHARD_TRY(const bool there, IsThere(source));
  if (there) return Ok();
  return Error{Code::kNotFound, Cat(source, ": no such file or directory"), std::move(hint)};
}

Status CheckIsNoReference(const std::string& source, uint32_t group) {
  std::error_code error;
  const bool here = std::filesystem::exists(source, error) ||
                    std::filesystem::exists(source.substr(0, source.find('/')), error);
  // "models.d/a" is more likely a directory.
  if (here || source.find_first_of(":@") == source.npos) return Ok();
  const auto read = registry::ParseReference(source);
  const bool is_reference = read && read->kind != registry::Reference::Kind::kFiles;
  const std::string meant = is_reference ? source : registry::MeantReference(source);
  std::string hint =
      meant.empty()
          ? registry::MeantReferenceHint(source)
          : Cat("this command reads files: pull them first, `",
                ShellCommand({"moepack", "pull", meant, "--group", Cat(group), "-o", "pulled"}),
                "`");
  if (hint.empty()) return Ok();
  return Error{Code::kNotFound, Cat(Shown(WithoutSecrets(source)), ": no such file or directory"),
               std::move(hint)};
}

uint64_t SizeOfFiles(const Checkpoint& checkpoint) {
  uint64_t bytes = 0;
  for (const SourceFile& file : checkpoint.files()) bytes += file.size;
  return bytes;
}

void NoteTraffic(const SourceTree& tree, uint64_t bytes, bool dry_run) {
  const std::optional<Traffic> traffic = tree.traffic();
  if (!traffic) return;
  const uint64_t kept = remote::BytesFromCache(tree);
  const std::string cached = kept == 0 ? "" : Cat(", ", ExactBytes(kept), " from the cache,");
  PrintNotes(
      {Cat(dry_run ? "for the dry run, " : "", "fetched ", ExactBytes(traffic->bytes), " in ",
           Plural(traffic->requests, "request"), cached, " of ", ExactBytes(bytes))});
}

}  // namespace moepack::cli
