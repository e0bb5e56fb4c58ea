#include "manifest/registry/sign/key_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <span>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
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

Status WriteNewFile(const std::string& path, mode_t mode, std::string_view text) {
  const Descriptor fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (!fd.valid() && errno == EEXIST)
    return Error{Code::kInvalidArgument, Cat(path, ": expected no such file, found one"),
                 "keys are never overwritten: choose another name"};
  if (!fd.valid()) return IoError(path, "create", errno);
  Status done = WriteAt(fd.get(), path, 0, std::as_bytes(std::span(text.data(), text.size())));
  if (done) done = FlushToDisk(fd.get(), path);
  if (!done) unlink(path.c_str());
  return done;
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
  SHARD_CHECK(WriteNewFile(paths.private_key, kPrivateMode, pem.text()));
  Status done = WriteNewFile(paths.public_key, kPublicMode, key.public_key().pem());
  if (!done) unlink(paths.private_key.c_str());
  return done;
}

}  // namespace moepack::registry
