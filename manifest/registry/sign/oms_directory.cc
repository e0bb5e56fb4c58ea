// Signing and verifying directories (oms.h).
#include <algorithm>
#include <map>
#include <system_error>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/files/temporary_file.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "manifest/document/file_names.h"
#include "manifest/document/model_signature.h"
#include "manifest/registry/sign/oms.h"

namespace moepack::registry {
namespace {

constexpr size_t kMostNamed = 5;  // files that differ
// What git and its hosts keep beside a model; `model_signing` ignores the same.
constexpr const char* kGitPaths[] = {".git", ".gitattributes", ".github", ".gitignore"};

std::string SignatureFileOf(const std::string& directory, const std::string& signature_file) {
  return signature_file.empty() ? (fs::path(directory) / manifest::kSignatureFile).string()
                                : signature_file;
}

// Relative to the directory; "" for a file outside it.
std::string NameInside(const std::string& directory, const std::string& file) {
  std::error_code ignored;
  const fs::path top = WeaklyCanonicalPath(directory, ignored);
  const fs::path whole = AbsolutePath(file);
  const fs::path name = (WeaklyCanonicalPath(whole.parent_path(), ignored) / whole.filename())
                            .lexically_relative(top);
  return name.empty() || *name.begin() == ".." ? "" : name.generic_string();
}

// "pulled-0" for "some/where/pulled-0/" and, inside it, for ".".
std::string DirectoryName(const std::string& directory) {
  const fs::path path = AbsolutePath(directory).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

std::string NamesText(const std::vector<std::string>& names) {
  std::vector<std::string> shown(names.begin(), names.begin() + std::min(names.size(), kMostNamed));
  if (names.size() > kMostNamed) shown.push_back(Cat(names.size() - kMostNamed, " more"));
  return moepack::Join(shown, ", ");
}

// Names every file in which the two lists differ.
Status CompareFiles(const std::string& directory, const std::vector<FileDigest>& expected,
                    const std::vector<FileDigest>& found) {
  std::map<std::string, std::string> there;
  for (const FileDigest& file : found) there[file.name] = file.sha256;
  std::vector<std::string> changed, missing, extra;
  for (const FileDigest& file : expected) {
    const auto at = there.find(file.name);
    if (at == there.end()) {
      missing.push_back(Shown(file.name));
    } else {
      if (at->second != file.sha256) changed.push_back(Shown(file.name));
      there.erase(at);
    }
  }
  for (const auto& [name, sha256] : there) extra.push_back(Shown(name));
  std::vector<std::string> parts;
  if (!changed.empty()) parts.push_back(Cat("other bytes in ", NamesText(changed)));
  if (!missing.empty()) parts.push_back(Cat("no file ", NamesText(missing)));
  if (!extra.empty()) parts.push_back(Cat("files that nobody signed: ", NamesText(extra)));
  if (parts.empty()) return Ok();
  return Error{Code::kMismatch, Cat(directory, ": expected the files that were signed, found ",
                                    moepack::Join(parts, "; "))};
}

// What exists may be an input, such as the key or a file of the directory.
Status CheckFree(const std::string& file, const OmsSignOptions& options) {
  SHARD_TRY(const bool taken, IsTaken(file));
  if (!taken) return Ok();
  const auto text = ReadTextFile(file, manifest::kMaxModelSignature);
  if (!text && text.error().code == Code::kIo) return text.error();
  if (!text || !manifest::IsModelSignature(*text)) {
    return Error{Code::kInvalidArgument, Cat(file, " already exists and is not a signature"),
                 "--force replaces only a signature: choose another output"};
  }
  if (options.replace) return Ok();
  return Error{Code::kInvalidArgument, Cat(file, " already exists"), "--force replaces it"};
}

// What a killed `sign` left of its own file is removed when the file is written, and is not signed.
// Anything else that a killed run left would be signed as a part of the model.
Result<std::vector<std::string>> FindLeftovers(const std::string& directory,
                                               const std::string& own) {
  SHARD_TRY(const InsideDirectory inside, InsideDirectory::Open(directory));
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, inside.List());
  std::vector<std::string> passed_over;
  for (const InsideDirectory::Entry& entry : entries) {
    const std::string replaced(TemporaryOf(entry.name));
    const bool signature =
        !replaced.empty() && (replaced == own || replaced == manifest::kSignatureFile);
    if (replaced == own && signature) {
      passed_over.push_back(entry.name);
    } else if (signature || IsUnfinishedRun(entry)) {
      return Error{Code::kInvalidArgument,
                   Cat(directory, " holds ", Quoted(entry.name), ", which an unfinished run left"),
                   "wait for that run to end, or remove what it left, then sign"};
    }
  }
  return passed_over;
}

}  // namespace

Result<OmsReport> SignDirectory(const std::string& directory, const PrivateKey& key,
                                const OmsSignOptions& options) {
  OmsReport report;
  report.directory = directory;
  report.signature_file = SignatureFileOf(directory, options.signature_file);
  SHARD_CHECK(CheckFree(report.signature_file, options));
  OmsStatement statement;
  statement.name = report.name = DirectoryName(directory);
  if (!IsUtf8(statement.name))
    return Error{Code::kUnsupported, Cat(Shown(directory), ": name: expected UTF-8")};
  statement.ignored = options.ignored;
  statement.ignored.insert(statement.ignored.end(), std::begin(kGitPaths), std::end(kGitPaths));
  const std::string own = NameInside(directory, report.signature_file);
  if (!own.empty()) statement.ignored.push_back(own);
  std::sort(statement.ignored.begin(), statement.ignored.end());
  // Checked before everything is read: the key may be of another type.
  SHARD_CHECK(WriteOmsBundle("", key));
  SHARD_TRY(std::vector<std::string> unsigned_files, FindLeftovers(directory, own));
  unsigned_files.insert(unsigned_files.end(), statement.ignored.begin(), statement.ignored.end());
  SHARD_TRY(HashedDirectory hashed, HashDirectory(directory, unsigned_files, options.hash));
  if (hashed.files.empty())
    return Error{Code::kInvalidArgument, Cat(directory, ": expected files, found none")};
  statement.files = std::move(hashed.files);
  report.digest = RootDigest(statement.files);
  report.files = statement.files.size();
  report.bytes = hashed.bytes;
  report.key_name = key.public_key().name();
  report.key_id = key.public_key().id();
  if (options.dry_run) return report;
  SHARD_TRY(const std::string bundle, WriteOmsBundle(WriteOmsStatement(statement), key));
  SHARD_CHECK(WriteTextFile(report.signature_file, bundle));
  return report;
}

Result<OmsReport> VerifyDirectory(const std::string& directory, const std::string& signature_file,
                                  const std::vector<PublicKey>& keys, const HashOptions& options) {
  OmsReport report;
  report.directory = directory;
  report.signature_file = SignatureFileOf(directory, signature_file);
  const auto text = ReadTextFile(report.signature_file, manifest::kMaxModelSignature);
  if (!text && text.error().code == Code::kNotFound)
    return Error{Code::kMismatch, Cat(report.signature_file, ": expected a signature, found none"),
                 "`moepack sign DIR --oms` writes one"};
  if (!text) return text.error();
  SHARD_TRY(const OmsSigned opened, OpenOmsBundle(report.signature_file, *text, keys));
  SHARD_TRY(OmsStatement statement,
            ParseOmsStatement(Cat(report.signature_file, ": statement"), opened.statement));
  const std::string own = NameInside(directory, report.signature_file);
  if (!own.empty()) statement.ignored.push_back(own);
  SHARD_TRY(const HashedDirectory hashed, HashDirectory(directory, statement.ignored, options));
  SHARD_CHECK(CompareFiles(directory, statement.files, hashed.files));
  report.name = statement.name;
  report.digest = RootDigest(statement.files);
  report.files = hashed.files.size();
  report.bytes = hashed.bytes;
  report.key_name = opened.key.name();
  report.key_id = opened.key.id();
  return report;
}

}  // namespace moepack::registry
