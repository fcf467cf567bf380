#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <unordered_map>

#include "convert/safetensors.h"

// Which files of a Hugging Face directory are its weights (cases rows 26–31, 56).
namespace cortiq::convert {
namespace {

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

// "'a', 'b' and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  std::string out;
  const size_t shown = std::min<size_t>(names.size(), 6);
  for (size_t i = 0; i < shown; ++i) out += (i ? ", '" : "'") + printable(names[i], 120) + "'";
  if (names.size() > shown) out += fmt::format(" and {} more", names.size() - shown);
  return out;
}

// tensor → file name, as the index says it.
std::map<std::string, std::string> read_index(const std::string& path, FileSystem& files) {
  const Json json = parse_json(files.read_all(path), path, {.depth = 64, .allow_bom = true});
  const auto map = json.is_object() ? json.find("weight_map") : json.end();
  if (!json.is_object() || map == json.end() || !map->is_object()) {
    fail(ErrorKind::Parse, "{}: 'weight_map' is missing or is not an object", path);
  }
  std::map<std::string, std::string> out;
  for (const auto& [tensor, file] : map->items()) {
    if (!file.is_string()) {
      fail(ErrorKind::Parse, "{}: weight_map of '{}' is not a file name", path, printable(tensor));
    }
    const auto& name = file.get_ref<const std::string&>();
    // Metadata must not lead out of the directory.
    if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != name.npos ||
        name.find('\0') != name.npos) {
      fail(ErrorKind::Parse,
           "{}: weight_map of '{}' names '{}': only plain file names of the same directory are allowed", path,
           printable(tensor), printable(name));
    }
    out.emplace(tensor, name);
  }
  if (out.empty()) fail(ErrorKind::Parse, "{}: 'weight_map' is empty", path);
  return out;
}

bool same_payload(const MappedFile& a, const SourceTensor& in_a, const MappedFile& b, const SourceTensor& in_b) {
  if (in_a.dtype != in_b.dtype || in_a.shape != in_b.shape || in_a.nbytes != in_b.nbytes) return false;
  return std::memcmp(a.bytes().data() + in_a.offset, b.bytes().data() + in_b.offset, in_a.nbytes) == 0;
}

class Shards {
 public:
  Shards(const std::string& directory, std::map<std::string, std::string> index, FileSystem& files)
      : directory_(directory), index_(std::move(index)) {
    open_all(files);
    note_strangers(files);
  }

  std::shared_ptr<const Source> take() {
    check_index();
    std::vector<SourceTensor> tensors;
    std::vector<std::string> omitted;
    std::unordered_map<std::string, size_t> placed;  // the copy that is used, by name
    for (uint32_t f = 0; f < mappings_.size(); ++f) {
      for (const SourceTensor& one : contents_[f]) {
        const auto entry = index_.find(one.name);
        if (entry == index_.end()) omitted.push_back(one.name);
        const auto [at, fresh] = placed.emplace(one.name, tensors.size());
        if (fresh) {
          tensors.push_back(one);
          continue;
        }
        settle_copies(tensors[at->second], one, entry == index_.end() ? nullptr : &entry->second);
      }
    }
    if (!omitted.empty()) {
      warnings_.push_back(fmt::format("{}: the index omits {}, which the shards hold: used all the same",
                                      join_path(directory_, kIndex), some_of(omitted)));
    }
    std::sort(tensors.begin(), tensors.end(),
              [](const SourceTensor& a, const SourceTensor& b) { return a.name < b.name; });
    return std::make_shared<SafetensorsSource>(std::move(mappings_), std::move(tensors), std::move(warnings_));
  }

 private:
  void open_all(FileSystem& files) {
    std::set<std::string> names;
    for (const auto& [tensor, file] : index_) names.insert(file);
    std::vector<std::string> missing;
    for (const std::string& name : names) {
      if (!files.exists(join_path(directory_, name))) missing.push_back(name);
    }
    if (!missing.empty()) {
      fail(ErrorKind::Io, "{}: {} of {} shards missing (or links that lead nowhere): {}", directory_, missing.size(),
           names.size(), some_of(missing));
    }
    for (const std::string& name : names) {
      names_.push_back(name);
      mappings_.push_back(files.map(join_path(directory_, name)));
      contents_.push_back(parse_safetensors(*mappings_.back(), static_cast<uint32_t>(mappings_.size() - 1)));
    }
  }

  void check_index() const {
    for (const auto& [tensor, file] : index_) {
      const size_t f = static_cast<size_t>(std::lower_bound(names_.begin(), names_.end(), file) - names_.begin());
      const auto& held = contents_[f];
      const auto at =
          std::lower_bound(held.begin(), held.end(), tensor,
                           [](const SourceTensor& one, const std::string& name) { return one.name < name; });
      if (at == held.end() || at->name != tensor) {
        fail(ErrorKind::Parse, "{}: the index places tensor '{}' in '{}', which does not hold it",
             join_path(directory_, kIndex), printable(tensor), printable(file));
      }
    }
  }

  // The index decides between two copies of one tensor; they must be equal all the same.
  void settle_copies(SourceTensor& used, const SourceTensor& other, const std::string* indexed) {
    const std::string &a = names_[used.file], &b = names_[other.file];
    if (!same_payload(*mappings_[used.file], used, *mappings_[other.file], other)) {
      fail(ErrorKind::Parse, "{}: tensor '{}' stands in '{}' and in '{}' with different contents", directory_,
           printable(used.name), printable(a), printable(b));
    }
    warnings_.push_back(fmt::format("{}: tensor '{}' stands in '{}' and in '{}' with equal bytes", directory_,
                                    printable(used.name), printable(a), printable(b)));
    if (indexed && *indexed == b) used = other;
  }

  void note_strangers(FileSystem& files) {
    std::vector<std::string> strangers;
    for (const std::string& name : files.list(directory_)) {
      if (name.ends_with(".safetensors") && !std::binary_search(names_.begin(), names_.end(), name)) {
        strangers.push_back(name);
      }
    }
    if (!strangers.empty()) {
      warnings_.push_back(fmt::format("{}: ignored, because the index does not name {}: {}", directory_,
                                      strangers.size() == 1 ? "it" : "them", some_of(strangers)));
    }
  }

  const std::string& directory_;
  std::map<std::string, std::string> index_;
  std::vector<std::string> names_;  // of the files, sorted
  std::vector<std::shared_ptr<const MappedFile>> mappings_;
  std::vector<std::vector<SourceTensor>> contents_;
  std::vector<std::string> warnings_;
};

// Both a single file and an index: the single file counts if it holds everything (row 30).
std::shared_ptr<const Source> open_single_beside_index(const std::string& directory,
                                                       const std::map<std::string, std::string>& index,
                                                       FileSystem& files) {
  const std::string path = join_path(directory, kSingle);
  std::shared_ptr<const MappedFile> mapping = files.map(path);
  std::vector<SourceTensor> tensors = parse_safetensors(*mapping, 0);
  for (const auto& [tensor, file] : index) {
    const auto at = std::lower_bound(tensors.begin(), tensors.end(), tensor,
                                     [](const SourceTensor& one, const std::string& name) { return one.name < name; });
    const bool held = at != tensors.end() && at->name == tensor;
    if (held || file == kSingle) continue;
    fail(ErrorKind::Parse,
         "{}: '{}' and '{}' are both there and disagree: the single file lacks '{}', which the index places in '{}'; "
         "remove the stale one",
         directory, kSingle, kIndex, printable(tensor), printable(file));
  }
  std::vector<std::string> warnings{fmt::format(
      "{}: both '{}' and '{}' are there; the single file holds every tensor and is used", directory, kSingle, kIndex)};
  return std::make_shared<SafetensorsSource>(std::vector{std::move(mapping)}, std::move(tensors), std::move(warnings));
}

}  // namespace

std::shared_ptr<const Source> open_safetensors(const std::string& path, FileSystem& files) {
  const bool is_directory = files.info(path).directory;
  const std::string directory = is_directory ? path : directory_of(path);
  const std::string index_path = join_path(directory, kIndex);
  const bool has_index = files.exists(index_path);
  if (!is_directory) {
    if (!has_index) return open_safetensors_file(path, files);
    std::map<std::string, std::string> index = read_index(index_path, files);
    const bool indexed =
        std::any_of(index.begin(), index.end(), [&](const auto& entry) { return entry.second == file_name_of(path); });
    return indexed ? Shards(directory, std::move(index), files).take() : open_safetensors_file(path, files);
  }
  const std::string single = join_path(directory, kSingle);
  const bool has_single = files.exists(single);
  if (!has_index && !has_single) {
    fail(ErrorKind::Io, "{}: neither '{}' nor '{}' is there (or they are links that lead nowhere)", directory, kSingle,
         kIndex);
  }
  if (!has_index) return open_safetensors_file(single, files);
  std::map<std::string, std::string> index = read_index(index_path, files);
  const bool names_single =
      std::any_of(index.begin(), index.end(), [](const auto& entry) { return entry.second == kSingle; });
  if (has_single && !names_single) return open_single_beside_index(directory, index, files);
  return Shards(directory, std::move(index), files).take();
}

}  // namespace cortiq::convert
