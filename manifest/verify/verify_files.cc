// Rules about the files themselves: they exist inside the directory, have the right size, and have
// the header that the manifest describes. No tensor data is read.
#include <algorithm>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "manifest/document/file_names.h"
#include "manifest/document/model_signature.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

namespace fs = std::filesystem;

namespace {

// True if `path`, after resolving links, is below `root`. REQUIRES: `root` is canonical.
bool StaysInside(const fs::path& root, const fs::path& path) {
  std::error_code error;
  const fs::path target = WeaklyCanonicalPath(path, error);
  if (error) return false;
  const auto [end, unused] = std::mismatch(root.begin(), root.end(), target.begin(), target.end());
  return end == root.end();
}

void NoteAbsent(const CheckedFile& file, const std::string& found, Findings& findings) {
  RuleFindings("files-present", findings)
      .Error(Cat("expected a file of ", FormatCount(file.size), " bytes, found ", found),
             file.file);
}

// What is there, if it is no file.
std::string FoundInstead(const fs::path& path) {
  const Result<bool> taken = IsTaken(path);
  if (!taken) return taken.error().message;
  if (!*taken) return "none";
  std::error_code error;
  const bool link = fs::is_symlink(fs::symlink_status(path, error));
  return !link ? "something else" : fs::exists(path, error) ? "a link" : "a link to nothing";
}

void CheckPresence(const fs::path& root, bool may_be_link, CheckedFile& file, Findings& findings) {
  std::error_code error;
  const fs::path path = root / file.file;
  const bool regular = fs::is_regular_file(path, error);
  // It throws where memory was lacking, which says nothing about the file.
  if (error) (void)ErrnoText(error.value());
  file.readable = regular && (may_be_link || StaysInside(root, path));
  if (!regular) {
    NoteAbsent(file, FoundInstead(path), findings);
    return;
  }
  const uint64_t size = fs::file_size(path, error);
  if (error) (void)ErrnoText(error.value());
  if (!file.readable || (!error && size == file.size)) return;
  file.readable = false;
  RuleFindings("file-size", findings)
      .Error(Cat("size: expected ", file.size, " bytes, found ", size), file.file);
}

// Vouches for the files and is not one of them.
bool IsSignature(const fs::path& path, const std::string& name) {
  if (name != kSignatureFile) return false;
  const auto text = ReadTextFile(path, kMaxModelSignature);
  return text && IsModelSignature(*text);
}

// Checks every name below the directory: links must not lead out of it, and files should be in the
// manifest.
void CheckNames(const fs::path& root, const DirectoryScope& scope,
                const std::vector<CheckedFile>& files, Findings& findings) {
  TextSet<std::string> listed(scope.own.begin(), scope.own.end());
  for (const CheckedFile& file : files) listed.insert(file.file);
  std::error_code error;
  fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string name = it->path().lexically_relative(root).generic_string();
    std::error_code ignored;
    if (it.depth() == 0 && it->is_directory(ignored)) {
      const auto beside = IsBesideOutput(root, {name, InsideDirectory::Kind::kDirectory});
      if (beside && *beside) {
        it.disable_recursion_pending();
        continue;
      }
    }
    const bool link_allowed = scope.files_may_be_links && listed.contains(name);
    if (it->is_symlink(ignored) && !link_allowed && !StaysInside(root, it->path())) {
      RuleFindings("no-links-outside", findings)
          .Error("link: expected a target inside the distribution, found one outside", name);
    } else if (!it->is_directory(ignored) && !listed.contains(name) &&
               !IsSignature(it->path(), name)) {
      RuleFindings("no-stray-files", findings)
          .Add(scope.severity_of_stray(name),
               "file: expected only files that are listed, found one that is not", {name, ""});
    }
  }
  if (!error) return;
  RuleFindings("files-present", findings)
      .Error(Cat("directory: cannot be listed: ", ErrnoText(error.value())));
}

}  // namespace

void CheckDirectory(const std::string& directory, const DirectoryScope& scope,
                    std::vector<CheckedFile>& files, Findings& findings) {
  std::error_code error;
  const fs::path root = CanonicalPath(directory, error);
  if (error) {
    RuleFindings("files-present", findings)
        .Error(Cat("directory: cannot be listed: ", ErrnoText(error.value())));
    return;
  }
  for (CheckedFile& file : files) CheckPresence(root, scope.files_may_be_links, file, findings);
  CheckNames(root, scope, files, findings);
}

namespace {

void CheckLocalFiles(const fs::path& directory, const Manifest& manifest,
                     std::vector<CheckedFile>& files, Findings& findings) {
  const auto harmless = [](std::string_view) { return Severity::kWarning; };
  // If only some parts are selected, files of the other parts are not stray.
  CheckDirectory(directory.string(), {OwnFiles(manifest), false, harmless}, files, findings);
}

// A missing file is a finding; a server that does not answer is an error.
Status CheckFarFiles(const SourceTree& tree, std::vector<CheckedFile>& files, Findings& findings) {
  std::vector<std::string> names;
  for (const CheckedFile& file : files) names.push_back(file.file);
  tree.Expect(names);
  for (CheckedFile& file : files) {
    const Result<ByteSourcePtr> source = tree.Open(file.file);
    if (!source && source.error().code != Code::kNotFound) return source.error();
    file.readable = source && (*source)->size() == file.size;
    if (!source) {
      NoteAbsent(file, "none", findings);
    } else if (!file.readable) {
      RuleFindings("file-size", findings)
          .Error(Cat("size: expected ", file.size, " bytes, found ", (*source)->size()), file.file);
    }
  }
  return Ok();
}

}  // namespace

Status CheckFiles(const SourceTree& tree, const Manifest& manifest, std::vector<CheckedFile>& files,
                  Findings& findings) {
  if (const auto directory = tree.LocalPath("")) {
    CheckLocalFiles(*directory, manifest, files, findings);
  } else {
    SHARD_CHECK(CheckFarFiles(tree, files, findings));
  }
  RuleFindings container("container-header", findings);
  for (const CheckedFile& file : files) {
    if (file.bundle == nullptr || !file.readable) continue;
    Status status = CheckContainer(tree, manifest, *file.bundle, container);
    if (!status) container.Error(status.error().message, file.file);
  }
  return Ok();
}

}  // namespace moepack::manifest
