// Where a path leads. These throw std::bad_alloc where memory was lacking, which says nothing about
// the path; the functions of std::filesystem return that as an error like any other, with an empty
// path.
#pragma once

#include <filesystem>
#include <system_error>

namespace moepack {

// Symlinks followed, without "." and "..". An error if the path does not exist.
std::filesystem::path CanonicalPath(const std::filesystem::path& path, std::error_code& error);
// The same for the part of the path that exists; the rest is only tidied. Always absolute,
// and without a '/' at its end.
std::filesystem::path WeaklyCanonicalPath(const std::filesystem::path& path,
                                          std::error_code& error);
// Names the entry of a directory that would be created or replaced under this path: links in the
// directory's path are followed, the last name is kept. Such paths of two outputs are equal if
// writing one replaces the other, whether they exist or not.
std::filesystem::path EntryPath(const std::filesystem::path& path, std::error_code& error);
// From the root; the path as it is if the current directory is gone.
std::filesystem::path AbsolutePath(const std::filesystem::path& path);
// The same without ".", ".." and a '/' at its end: "out/" -> "/work/out". No link is followed, and
// nothing need be there.
std::filesystem::path TidyPath(const std::filesystem::path& path);

}  // namespace moepack
