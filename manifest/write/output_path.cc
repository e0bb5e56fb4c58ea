#include "manifest/write/output_path.h"

#include <algorithm>
#include <functional>
#include <set>
#include <system_error>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/model_signature.h"
#include "manifest/document/node_record.h"
#include "manifest/write/assets.h"

namespace moepack::manifest {

namespace fs = moepack::fs;

using Kind = moepack::InsideDirectory::Kind;

namespace {

constexpr const char* kForceHint =
    "--force replaces only what moepack wrote: move it away, or choose another output";

Error NotApart(const std::string& out, const std::string& why) {
  return {Code::kInvalidArgument, Cat(out, " ", why),
          "choose another output; inputs are never overwritten"};
}

// Resolves all links. A path that cannot be resolved is an error, because it might lead to the
// input.
Result<fs::path> Canonical(const fs::path& path) {
  std::error_code error;
  fs::path whole = WeaklyCanonicalPath(path, error);
  if (error) return IoError(path, "follow the path", error.value());
  return whole;
}

Error NotOurs(const InsideDirectory& directory, const std::string& what) {
  const auto lock = directory.KindOf(kPullLockFile);
  const bool pulled = lock && *lock == Kind::kFile;
  return Error{Code::kInvalidArgument, Cat(directory.path().string(), " holds ", what),
               pulled ? Cat("it was pulled, as its ", kPullLockFile,
                            " says: the same pull again brings back what is missing")
                      : kForceHint};
}

Result<std::set<std::string>> FilesOfDistribution(const InsideDirectory& directory) {
  SHARD_TRY(const std::string text, directory.ReadText(kManifestFile, kMaxManifestBytes));
  SHARD_TRY(const Manifest manifest,
            ParseManifest((directory.path() / kManifestFile).string(), text));
  const std::vector<std::string> files = OwnFiles(manifest);
  return std::set<std::string>(files.begin(), files.end());
}

// Recognises files of an old node, whose node file does not list them.
bool IsNodeFile(const std::string& name) {
  constexpr std::string_view kEnds[] = {".gguf", ".safetensors", ".safetensors.index.json"};
  const bool weights = std::any_of(std::begin(kEnds), std::end(kEnds),
                                   [&](std::string_view end) { return name.ends_with(end); });
  return name == kNodeFile || IsAssetName(name) || (weights && name.find('/') == std::string::npos);
}

bool IsWeights(std::string_view name) {
  return name.ends_with(".gguf") || name.ends_with(".safetensors");
}

// Returns the word of shard-experts --only for the part with a file of this name; "" for other
// names.
std::string PartOf(const std::string& name) {
  const std::vector<std::string> words = moepack::Split(name, '/');
  const std::string& directory = words[0];
  if (words.size() < 2) return "";
  if (directory == "assets")
    return IsAssetName(name.substr(kAssetDirectory.size())) ? directory : "";
  if (!IsWeights(name)) return "";
  if (directory == "trunk" || directory == "remainder") return directory;
  if (directory == "head" || directory == "routers") return "trunk";
  if (directory == "overlays") return "overlay";
  const auto group = directory == "groups" ? ParseUint(words[1]) : std::nullopt;
  return group ? Cat("group:", *group) : "";
}

// A killed run may leave files that the manifest does not name yet, because files are moved in
// before it.
std::string HintOfUnlisted(const std::string& name) {
  const std::string part = PartOf(name);
  if (part.empty()) return kForceHint;
  return Cat("if shard-experts --only ", part,
             " was killed, it left that file: run it again as it "
             "was, and distribution.json lists it; ",
             kForceHint);
}

// Checks that every name is known. Temporary names of known files count, because a killed run may
// leave them.
Status CheckNames(const InsideDirectory& directory,
                  const std::function<bool(const std::string&)>& known) {
  SHARD_TRY(const std::vector<std::string> names, ListOutputFiles(directory));
  for (const std::string& name : names) {
    if (known(name) || known(std::string(TemporaryOf(name)))) continue;
    // It vouches for the output as it is, and goes with it.
    if (name == kSignatureFile && HasSignature(directory)) continue;
    return Error{
        Code::kInvalidArgument,
        Cat(directory.path().string(), " holds ", Quoted(name), ", which moepack did not write"),
        HintOfUnlisted(name)};
  }
  return Ok();
}

Status CheckDistribution(const InsideDirectory& directory) {
  const auto files = FilesOfDistribution(directory);
  if (!files) {
    return NotOurs(directory,
                   Cat("a ", kManifestFile, " that cannot be read: ", files.error().message));
  }
  return CheckNames(directory, [&](const std::string& name) { return files->contains(name); });
}

Status CheckNode(const InsideDirectory& directory) {
  const std::string where = (directory.path() / kNodeFile).string();
  const auto text = directory.ReadText(kNodeFile, kMaxManifestBytes);
  const auto node = text ? ParseNodeRecord(where, *text) : Result<NodeRecord>(text.error());
  if (!node) {
    return NotOurs(directory, Cat("a ", kNodeFile, " that cannot be read: ", node.error().message));
  }
  if (!node->has_digests()) return CheckNames(directory, IsNodeFile);
  return CheckNames(directory, [&](const std::string& name) {
    return name == kNodeFile || node->FindFile(name) != nullptr;
  });
}

Status CheckOwn(const InsideDirectory& directory) {
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, ListOutput(directory));
  SHARD_CHECK(CheckHoldsNoMount(directory));
  SHARD_TRY(const Kind manifest, directory.KindOf(kManifestFile));
  if (manifest == Kind::kFile) return CheckDistribution(directory);
  SHARD_TRY(const Kind node, directory.KindOf(kNodeFile));
  if (node == Kind::kFile) return CheckNode(directory);
  if (entries.empty()) return Ok();
  return NotOurs(directory, Cat(Quoted(entries[0].name), ", but no ", kManifestFile, " or ",
                                kNodeFile, ", by which moepack knows its own files"));
}

std::string SigningCommand(const std::string& directory) {
  return ShellCommand({"moepack", "sign", PathArgument(directory), "--oms", "--key", "KEY.key"});
}

}  // namespace

bool HasSignature(const InsideDirectory& directory) {
  const auto text = directory.ReadText(kSignatureFile, kMaxModelSignature);
  return text && IsModelSignature(*text);
}

std::string StaleSignatureWarning(const std::string& directory) {
  return Cat(directory, "/", kSignatureFile,
             ": it signs the files as they were before; sign them again with `",
             SigningCommand(directory), " --force`");
}

std::string RemovedSignatureWarning(const std::string& directory) {
  return Cat(
      directory, "/", kSignatureFile,
      ": it signed the files that were there before, and was removed with them; sign the new "
      "ones with `",
      SigningCommand(directory), "`");
}

// Of a node that is half there, stock loaders would read what these two list.
moepack::OwnOutput OwnOutput() {
  return {CheckOwn, {kManifestFile, kNodeFile, "config.json", "model.safetensors.index.json"}};
}

Status CheckOutputApart(const std::string& out, const fs::path& source,
                        const std::vector<fs::path>& files) {
  if (out.empty()) {
    return Error{Code::kInvalidArgument, "--output is empty: it takes the name of a directory"};
  }
  std::error_code error;
  SHARD_TRY(const fs::path input, Canonical(source));
  SHARD_TRY(const fs::path output, Canonical(out));
  std::string why;
  if (output == input) {
    why = "is the input itself";
  } else if (HoldsPath(output, input)) {
    why = Cat("holds the input ", input.string());
  } else if (HoldsPath(input, output) && fs::exists(output, error) &&
             !fs::is_directory(output, error)) {
    why = Cat("is a file of the input ", input.string());
  }
  return why.empty() ? CheckHoldsNone(out, files) : Status(NotApart(out, why));
}

Status CheckHoldsNone(const std::string& out, const std::vector<fs::path>& files) {
  SHARD_TRY(const fs::path output, Canonical(out));
  for (const fs::path& file : files) {
    SHARD_TRY(const fs::path whole, Canonical(file));
    if (HoldsPath(output, whole))
      return NotApart(out, Cat("holds ", file.string(), ", which is read"));
  }
  return Ok();
}

Status CheckOutsideDistribution(const std::string& out, const fs::path& distribution,
                                const std::vector<fs::path>& files) {
  SHARD_CHECK(CheckOutputApart(out, distribution, files));
  SHARD_TRY(const fs::path input, Canonical(distribution));
  SHARD_TRY(const fs::path output, Canonical(out));
  if (!HoldsPath(input, output)) return Ok();
  return NotApart(out, Cat("lies inside the input ", input.string()));
}

namespace {

// If --force would be refused, too, this says why: in a mount point a stray file is easily
// overlooked.
Error AlreadyThere(const std::string& out, const fs::path& path, bool is_directory) {
  Error error{Code::kInvalidArgument, Cat(out, " already exists"),
              "--force replaces what moepack wrote there; or choose another output"};
  if (!is_directory) return error;
  const auto directory = InsideDirectory::OpenItself(path);
  const Status own = directory ? CheckOwn(*directory) : Status(directory.error());
  if (own || own.error().code != Code::kInvalidArgument) return error;
  const std::string why = own.error().message, holds = Cat(path.string(), " holds ");
  if (why.starts_with(holds))
    error.message += Cat(", and holds ", why.substr(holds.size()));
  else
    error.message += Cat(": ", why);
  error.hint = own.error().hint;
  return error;
}

}  // namespace

Status CheckReplaceable(const std::string& out, bool force) {
  SHARD_TRY(const bool free, IsFreeOutput(out));
  if (free) return Ok();
  const fs::path path = TidyPath(out);
  std::error_code error;
  const fs::file_type type = fs::symlink_status(path, error).type();
  if (type == fs::file_type::none) return IoError(path, "look it up", error.value());
  if (!force) return AlreadyThere(out, path, type == fs::file_type::directory);
  if (type != fs::file_type::directory) {
    return Error{Code::kInvalidArgument,
                 Cat(out, type == fs::file_type::symlink ? " is a link" : " is not a directory",
                     ": moepack did not write it"),
                 kForceHint};
  }
  SHARD_TRY(const auto directory, InsideDirectory::OpenItself(path));
  return CheckOwn(directory);
}

}  // namespace moepack::manifest
