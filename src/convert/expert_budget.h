#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "convert/convert.h"

namespace cortiq::convert {

/// Expert counts of a stats file (FORMAT_FACTS §12): per layer, selections of each expert.
std::map<uint64_t, std::vector<uint64_t>> read_route_stats(const std::string& path, FileSystem& files);

/// Shares the vbit budget among the experts of a layer (FORMAT_FACTS §5.8): those with larger weights, or that are
/// chosen more often, get more bits, the mean stays. Families are worked out when the first of their tensors is asked
/// for; that reads all of them once.
class ExpertBudget {
 public:
  ExpertBudget(std::span<const PlannedTensor> tensors, double mean_bits,
               std::map<uint64_t, std::vector<uint64_t>> counts);

  /// bias_e of a tensor; 0 if it belongs to no family.
  float bias(const PlannedTensor& tensor, ThreadPool& pool);

 private:
  struct Member {
    const PlannedTensor* tensor;
    uint64_t expert;
    float bias = 0;
  };
  struct Family {
    uint64_t layer;
    std::vector<Member> members;
    bool settled = false;
  };
  void settle(Family& family, ThreadPool& pool) const;

  double mean_bits_;
  std::map<uint64_t, std::vector<uint64_t>> counts_;
  std::map<std::string, Family> families_;  // by "layer/projection"
  std::map<const PlannedTensor*, std::pair<Family*, size_t>> members_;
};

}  // namespace cortiq::convert
