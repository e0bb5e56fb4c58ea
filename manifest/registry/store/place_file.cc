#include "manifest/registry/store/place_file.h"

#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/scan_file.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;

// Hashes what is read from a source from front to back, as a copy does.
class HashedSource final : public ByteSource {
 public:
  explicit HashedSource(const ByteSource& source) : source_(source) {}
  const std::string& name() const override { return source_.name(); }
  uint64_t size() const override { return source_.size(); }
  const std::string& identity() const override { return source_.identity(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    SHARD_CHECK(source_.ReadAt(offset, out));
    sha256_.Update(out);
    return Ok();
  }
  Status CheckUnchanged() const override { return source_.CheckUnchanged(); }
  std::string Finish() const { return sha256_.Finish(); }

 private:
  const ByteSource& source_;
  mutable Sha256 sha256_;
};

Result<PlacedFile> CopyHashed(const ByteSource& source, const InsideDirectory& to,
                              const std::string& name, const PieceDone& read) {
  const HashedSource hashed(source);
  manifest::LinkOptions options;
  options.kind = LinkKind::kCopy;
  options.copied = read;
  SHARD_CHECK(manifest::LinkFile(hashed, to, name, options));
  return PlacedFile{LinkKind::kCopy, hashed.Finish()};
}

}  // namespace

Result<std::string> HashFile(const SourceTree& tree, const std::string& file,
                             const PieceDone& read) {
  SHARD_TRY(const ByteSourcePtr source, tree.Open(file));
  return Sha256Of(*source, read);
}

Result<PlacedFile> PlaceFile(const SourceTree& from, const std::string& file,
                             const InsideDirectory& to, const std::string& name, LinkKind link,
                             const PieceDone& read) {
  // Opening it through its tree refuses links that lead out of it.
  SHARD_TRY(const ByteSourcePtr source, from.Open(file));
  if (link == LinkKind::kCopy) return CopyHashed(*source, to, name, read);
  std::vector<LinkKind> kinds = {link};
  if (link == LinkKind::kAuto) kinds = {LinkKind::kHardlink, LinkKind::kReflink};
  Status status = Ok();
  for (const LinkKind kind : kinds) {
    const auto made =
        manifest::LinkFile(*from.LocalPath(file), to, name, manifest::LinkOptions{kind, {}, {}});
    if (!made) {
      status = made.error();
      continue;
    }
    SHARD_TRY(std::string sha256, HashFile(LocalTree(to.path()), name, read));
    return PlacedFile{kind, std::move(sha256)};
  }
  if (link != LinkKind::kAuto) return std::move(status).error();
  return CopyHashed(*source, to, name, read);
}

}  // namespace moepack::registry
