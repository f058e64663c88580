// SPDX-License-Identifier: MIT
#pragma once
#include <memory>

#include "belfry/towers/model.h"

namespace belfry {

// He, Zhang, Ren and Sun, "Deep residual learning for image recognition", 2015. Convolutions have
// no bias and start as He et al., "Delving deep into rectifiers", 2015; shortcuts that change shape
// are projections. Names are those of torchvision.

// Section 4.2: 6 n + 2 layers with 16, 32 and 64 channels, for small images.
std::unique_ptr<Classifier> cifar_resnet(std::int64_t n, const Shape& image, std::int64_t classes);

// Table 1: a 7x7 convolution, a pool and four stages; 18 and 34 layers with pairs of 3x3
// convolutions, deeper ones with bottlenecks, whose stride is in the 3x3 convolution.
std::unique_ptr<Classifier> imagenet_resnet(std::int64_t layers, const Shape& image,
                                            std::int64_t classes);

}  // namespace belfry
