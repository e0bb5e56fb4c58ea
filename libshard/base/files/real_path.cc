#include "libshard/base/files/real_path.h"

#include <new>

namespace moepack {

namespace fs = std::filesystem;

namespace {

void ThrowIfMemoryLacked(const std::error_code& error) {
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
}

}  // namespace

fs::path CanonicalPath(const fs::path& path, std::error_code& error) {
  fs::path whole = fs::canonical(path, error);
  ThrowIfMemoryLacked(error);
  return whole;
}

fs::path WeaklyCanonicalPath(const fs::path& path, std::error_code& error) {
  // Of a relative path whose first part does not exist, the standard function returns the path.
  fs::path whole = fs::weakly_canonical(AbsolutePath(path), error);
  ThrowIfMemoryLacked(error);
  if (!whole.has_filename() && whole.has_relative_path()) whole = whole.parent_path();  // "a/new/"
  return whole;
}

fs::path EntryPath(const fs::path& path, std::error_code& error) {
  const fs::path whole = AbsolutePath(path);
  const fs::path folder = WeaklyCanonicalPath(whole.parent_path(), error);
  return error ? fs::path() : folder / whole.filename();
}

fs::path AbsolutePath(const fs::path& path) {
  std::error_code error;
  fs::path whole = fs::absolute(path, error);
  ThrowIfMemoryLacked(error);
  return error ? path : whole;
}

fs::path TidyPath(const fs::path& path) {
  const fs::path whole = AbsolutePath(path).lexically_normal();
  return whole.has_filename() ? whole : whole.parent_path();
}

}  // namespace moepack
