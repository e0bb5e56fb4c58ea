#include "tools/options/upload_options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "libshard/base/text/text.h"
#include "libshard/remote/http/http_settings.h"
#include "tools/options/options.h"
#include "tools/options/registry_options.h"

namespace moepack::cli {
namespace {

using registry::UploadMode;

const std::map<std::string, UploadMode> kModes = {
    {"auto", UploadMode::kAuto}, {"whole", UploadMode::kWhole}, {"chunked", UploadMode::kChunked}};

// "" if there is no home: uploads are then restarted after the process ends.
std::string JournalDirectory() {
  const std::string state = remote::Environment("XDG_STATE_HOME");
  // The XDG Base Directory Specification says to ignore relative paths.
  if (state.starts_with('/')) return Cat(state, "/moepack/uploads");
  const std::string home = remote::Environment("HOME");
  return home.empty() ? "" : Cat(home, "/.local/state/moepack/uploads");
}

}  // namespace

void AddUploadOptions(CLI::App& app, registry::UploadOptions& upload) {
  upload.journal_directory = JournalDirectory();
  app.add_option_function<std::string>(
         "--upload", [&upload](const std::string& word) { upload.mode = kModes.at(word); },
         "How a registry gets a blob: whole (one request), chunked (many, which resume after a "
         "broken connection), or auto, the default: whole, and chunked where that is refused.")
      ->type_name("MODE")
      ->transform(OneOf({"auto", "whole", "chunked"}));
  app.add_option("--chunk-size", upload.chunk_bytes,
                 "The size of a chunk; the registry may require larger ones. Default: 64MiB.")
      ->type_name("SIZE")
      ->transform(AsBytes(1u << 20));
  app.add_option("--mount-from", upload.mount_from,
                 "A repository of the same registry, team/model, that may have the blobs: those "
                 "are mounted, not sent. Repeatable.")
      ->type_name("REPOSITORY")
      ->allow_extra_args(false);
}

Status CheckUploadUse(const registry::UploadOptions& upload, bool is_registry,
                      const std::string& place) {
  const registry::UploadOptions usual;
  const bool chunk_size = upload.chunk_bytes != usual.chunk_bytes;
  if (is_registry) {
    if (!chunk_size || upload.mode != UploadMode::kWhole) return Ok();
    return Error{Code::kInvalidArgument,
                 "--chunk-size has no effect: --upload whole sends each blob in one request",
                 "leave one of the two out"};
  }
  if (upload.mode != usual.mode) return NoRegistry("--upload", place);
  if (chunk_size) return NoRegistry("--chunk-size", place);
  if (!upload.mount_from.empty()) return NoRegistry("--mount-from", place);
  return Ok();
}

}  // namespace moepack::cli
