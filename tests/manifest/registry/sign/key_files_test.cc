#include "manifest/registry/sign/key_files.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include "libshard/base/text/text.h"
#include "tests/manifest/registry/sign/sample_keys.h"

namespace moepack::registry {
namespace {

using fixtures::ReadFile;
using fixtures::WriteFile;
using testing::HasSubstr;

class KeyFiles : public testing::Test {
 protected:
  KeyFiles() { unsetenv(kPassphraseVariable); }
  ~KeyFiles() override { unsetenv(kPassphraseVariable); }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  fixtures::TempDir dir_;
};

TEST_F(KeyFiles, OnlyTheOwnerMayReadThePrivateKey) {
  const PrivateKey key = NewKey();
  const KeyPaths paths = KeyPathsOf(Path("release"));
  EXPECT_EQ(paths.private_key, Path("release.key"));
  const mode_t before = umask(0);
  const Status written = WriteKeyPair(paths, key, {});
  umask(before);
  ASSERT_TRUE(written) << written.error().message;
  struct stat info = {};
  ASSERT_EQ(stat(paths.private_key.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
  const auto read = ReadPrivateKey(paths.private_key, {});
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->public_key().id(), key.public_key().id());
  const auto known = ReadPublicKey(paths.public_key);
  ASSERT_TRUE(known) << known.error().message;
  EXPECT_EQ(known->id(), key.public_key().id());
  EXPECT_EQ(known->name(), paths.public_key);
}

TEST_F(KeyFiles, WhatAKilledRunLeftIsRemovedByTheNext) {
  const KeyPaths paths = KeyPathsOf(Path("release"));
  WriteFile(Path("release.key.tmp-4711"), "half");
  WriteFile(Path("release.pub.tmp-4711"), "half");
  WriteFile(Path("other.key.tmp-4711"), "of another key");
  const Status written = WriteKeyPair(paths, NewKey(), {});
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_FALSE(std::filesystem::exists(Path("release.key.tmp-4711")));
  EXPECT_FALSE(std::filesystem::exists(Path("release.pub.tmp-4711")));
  EXPECT_TRUE(std::filesystem::exists(Path("other.key.tmp-4711")));
}

TEST_F(KeyFiles, NeverReplacesExistingFiles) {
  const KeyPaths paths = KeyPathsOf(Path("release"));
  for (const std::string& there : {paths.private_key, paths.public_key}) {
    WriteFile(there, "mine");
    const Status written = WriteKeyPair(paths, NewKey(), {});
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Code::kInvalidArgument);
    EXPECT_EQ(written.error().message, there + ": expected a new file, found one that exists");
    EXPECT_EQ(ReadFile(there), "mine");
    std::filesystem::remove(there);
    EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
  }
  std::filesystem::create_symlink(Path("elsewhere"), paths.private_key);
  EXPECT_FALSE(WriteKeyPair(paths, NewKey(), {}));
  EXPECT_FALSE(std::filesystem::exists(Path("elsewhere")));
  const Status nowhere = WriteKeyPair(KeyPathsOf(Path("none/release")), NewKey(), {});
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(nowhere.error().message, HasSubstr("none: open the directory: "));
}

// The public key's temporary file has the name of the private key, which was free when it was
// looked up.
TEST_F(KeyFiles, NeverReplacesAFileThatAppearsMeanwhile) {
  const std::string temporary = moepack::Cat("release.tmp-", getpid());
  const Status written = WriteKeyPair({Path(temporary), Path("release")}, NewKey(), {});
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kInvalidArgument);
  EXPECT_EQ(written.error().message,
            Path(temporary) + ": expected a new file, found one that exists");
  EXPECT_EQ(written.error().hint, "keys are never overwritten: choose another name");
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(KeyFiles, ReadsAPassphraseFromTheFirstLineOfAFile) {
  for (const char* text :
       {"open sesame", "open sesame\n", "open sesame\r\n", "open sesame\nmore"}) {
    WriteFile(dir_ / "words", text);
    const auto read = ReadPassphrase(Path("words"));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->text(), "open sesame");
  }
  WriteFile(dir_ / "words", "\nopen sesame");
  const auto empty = ReadPassphrase(Path("words"));
  ASSERT_FALSE(empty);
  EXPECT_THAT(empty.error().message, HasSubstr("words: expected a passphrase in the first line"));
  EXPECT_EQ(ReadPassphrase(Path("absent")).error().code, Code::kNotFound);
  WriteFile(dir_ / "words", std::string(5000, 'x'));
  EXPECT_EQ(ReadPassphrase(Path("words")).error().code, Code::kCorrupt);
}

TEST_F(KeyFiles, ReadsAPassphraseFromTheEnvironment) {
  EXPECT_TRUE(ReadPassphrase("")->empty());
  setenv(kPassphraseVariable, "open sesame", 1);
  EXPECT_EQ(ReadPassphrase("")->text(), "open sesame");
  WriteFile(dir_ / "words", "another");
  EXPECT_EQ(ReadPassphrase(Path("words"))->text(), "another");
}

TEST_F(KeyFiles, ReadsSeveralPublicKeys) {
  for (const char* name : {"a", "b"})
    ASSERT_TRUE(WriteKeyPair(KeyPathsOf(Path(name)), NewKey(), {}));
  const auto keys = ReadPublicKeys({Path("a.pub"), Path("b.pub")});
  ASSERT_TRUE(keys) << keys.error().message;
  EXPECT_EQ(keys->size(), 2u);
  const auto twice = ReadPublicKeys({Path("a.pub"), Path("b.pub"), Path("a.pub")});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("expected a key of its own, found that of "));
  EXPECT_EQ(ReadPublicKeys({Path("a.pub"), Path("c.pub")}).error().code, Code::kNotFound);
}

// Once this was "out of memory".
TEST_F(KeyFiles, SaysThatAnEmptyKeyFileIsEmpty) {
  for (const char* text : {"", " \r\n\n"}) {
    WriteFile(Path("key"), text);
    for (const Error& error :
         {ReadPublicKey(Path("key")).error(), ReadPrivateKey(Path("key"), {}).error()}) {
      EXPECT_EQ(error.code, Code::kCorrupt);
      EXPECT_EQ(error.message, Path("key") + ": expected a key as PEM text, found an empty file");
      EXPECT_THAT(error.hint, HasSubstr("`moepack keygen`"));
    }
  }
  const std::string no_bytes = "-----BEGIN PUBLIC KEY-----\n-----END PUBLIC KEY-----\n";
  WriteFile(Path("key"), no_bytes);
  EXPECT_THAT(ReadPublicKey(Path("key")).error().message, HasSubstr("key: expected a "));
}

TEST_F(KeyFiles, RefusesAFileThatIsTooLarge) {
  WriteFile(dir_ / "large", std::string(70000, 'x'));
  EXPECT_EQ(ReadPublicKey(Path("large")).error().code, Code::kCorrupt);
  EXPECT_EQ(ReadPrivateKey(Path("large"), {}).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack::registry
