#include "manifest/registry/sign/key_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <span>
#include <utility>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/temporary_file.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

constexpr uint64_t kMaxKeyFile = 64u << 10;
constexpr uint64_t kMaxPassphraseFile = 4096;
constexpr mode_t kPrivateMode = 0600, kPublicMode = 0644;

Result<Secret> ReadSecretFile(const std::string& path, uint64_t limit) {
  SHARD_TRY(std::string text, ReadTextFile(path, limit));
  Secret secret(text);
  Wipe(text);
  return secret;
}

// A file that is written under a temporary name (temporary_file.h), so that what a killed run left
// of it is removed by the next. It disappears again, under whatever name it has by
// then, unless Keep is called.
class NewFile {
 public:
  // kInvalidArgument if something has this name already.
  static Result<NewFile> Write(const std::string& path, mode_t mode, std::string_view text);
  NewFile(NewFile&&) = default;
  ~NewFile();

  // Gives the file its name, and flushes the directory. kInvalidArgument if something has taken the
  // name since.
  Status Publish() const;
  void Keep() { kept_ = true; }

 private:
  NewFile(InsideDirectory directory, std::string path)
      : directory_(std::move(directory)),
        path_(std::move(path)),
        name_(fs::path(path_).filename().string()) {}

  InsideDirectory directory_;
  std::string path_, name_, temporary_;
  Descriptor fd_;  // not valid: nothing was made
  bool kept_ = false;
};

Error NameIsTaken(const std::string& path) {
  return {Code::kInvalidArgument, Cat(path, ": expected a new file, found one that exists"),
          "keys are never overwritten: choose another name"};
}

Result<NewFile> NewFile::Write(const std::string& path, mode_t mode, std::string_view text) {
  const fs::path place = path;
  SHARD_TRY(InsideDirectory directory,
            InsideDirectory::Open(place.has_parent_path() ? place.parent_path() : "."));
  NewFile file(std::move(directory), path);
  SHARD_TRY(const InsideDirectory::Kind kind, file.directory_.KindOf(file.name_));
  if (kind != InsideDirectory::Kind::kNothing) return NameIsTaken(path);
  // With its mode from the start: nobody can open a private key before it is written.
  SHARD_TRY(TemporaryFile temporary,
            MakeTemporaryFile(file.directory_.descriptor(), file.name_, place, mode));
  file.fd_ = std::move(temporary.fd);
  file.temporary_ = std::move(temporary.name);
  SHARD_CHECK(WriteAt(file.fd_.get(), path, 0, std::as_bytes(std::span(text.data(), text.size()))));
  SHARD_CHECK(FlushToDisk(file.fd_.get(), path));
  return file;
}

Status NewFile::Publish() const {
  const Status moved = directory_.Move(temporary_, directory_, name_, false);
  if (!moved && moved.error().code == Code::kInvalidArgument) return NameIsTaken(path_);
  return moved;
}

NewFile::~NewFile() {
  if (kept_ || !fd_.valid()) return;
  const int at = directory_.descriptor();
  unlinkat(at, temporary_.c_str(), 0);
  struct stat own = {}, there = {};
  const bool published = fstat(fd_.get(), &own) == 0 &&
                         fstatat(at, name_.c_str(), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
                         own.st_dev == there.st_dev && own.st_ino == there.st_ino;
  if (published) unlinkat(at, name_.c_str(), 0);
}

}  // namespace

Result<Secret> ReadPassphrase(const std::string& path) {
  if (path.empty()) {
    const char* value = std::getenv(kPassphraseVariable);
    return Secret(value == nullptr ? "" : value);
  }
  SHARD_TRY(const Secret file, ReadSecretFile(path, kMaxPassphraseFile));
  std::string_view line = file.text().substr(0, file.text().find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (!line.empty()) return Secret(line);
  return Error{Code::kInvalidArgument,
               Cat(path, ": expected a passphrase in the first line, found an empty one")};
}

Result<PublicKey> ReadPublicKey(const std::string& path) {
  SHARD_TRY(const Secret pem, ReadSecretFile(path, kMaxKeyFile));
  return PublicKey::Parse(path, pem.text());
}

Result<std::vector<PublicKey>> ReadPublicKeys(const std::vector<std::string>& paths) {
  std::vector<PublicKey> keys;
  for (const std::string& path : paths) {
    SHARD_TRY(PublicKey key, ReadPublicKey(path));
    for (const PublicKey& other : keys) {
      if (other.id() == key.id())
        return Error{Code::kInvalidArgument,
                     Cat(path, ": expected a key of its own, found that of ", other.name()),
                     "name each key once"};
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<PrivateKey> ReadPrivateKey(const std::string& path, const Secret& passphrase) {
  SHARD_TRY(const Secret pem, ReadSecretFile(path, kMaxKeyFile));
  return PrivateKey::Parse(path, pem.text(), passphrase);
}

KeyPaths KeyPathsOf(const std::string& name) { return {name + ".key", name + ".pub"}; }

Status WriteKeyPair(const KeyPaths& paths, const PrivateKey& key, const Secret& passphrase) {
  SHARD_TRY(const Secret pem, key.Pem(passphrase));
  SHARD_TRY(NewFile secret, NewFile::Write(paths.private_key, kPrivateMode, pem.text()));
  SHARD_TRY(NewFile open, NewFile::Write(paths.public_key, kPublicMode, key.public_key().pem()));
  SHARD_CHECK(secret.Publish());
  SHARD_CHECK(open.Publish());
  secret.Keep();
  open.Keep();
  return Ok();
}

}  // namespace moepack::registry
