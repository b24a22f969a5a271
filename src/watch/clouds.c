/* SPDX-License-Identifier: Apache-2.0
 *
 * clouds: the sources whose metadata services work like Amazon's (imds.h), one row each.
 *
 * Oracle's cloud is missing: its documentation announces preemptions only by its event service, not
 * by the metadata service.
 */
#include "watch/imds.h"
#include "watch/sources.h"

#define INTERVAL_NS (5 * NS_PER_S) /* as Amazon asks for */
#define LEAD_NS     (3600 * NS_PER_S)

static const struct imds_cloud amazon = {
    .rule = {{"AWS_EC2_METADATA_SERVICE_ENDPOINT"},
             "169.254.169.254",
             "Amazon EC2's",
             {{"sys_vendor", "Amazon"},
              {"bios_vendor", "Amazon"},
              {"board_vendor", "Amazon"},
              {"bios_version", "amazon"},
              {"product_uuid", "ec2"}}},
    .token = "the token (IMDSv2)",
    .without = " (IMDSv1)",
    .token_header = "X-aws-ec2-metadata-token",
    .ttl_header = "X-aws-ec2-metadata-token-ttl-seconds",
    .paths = {{"spot/instance-action", body_aws_action, false, false},
              {"spot/termination-time", body_aws_termination, false, false},
              {"events/recommendations/rebalance", body_aws_rebalance, false, false},
              {"events/maintenance/scheduled", body_aws_scheduled, true, false},
              {"autoscaling/target-lifecycle-state", body_aws_lifecycle, false, true}},
};

static const struct imds_cloud alibaba = {
    .rule = {{NULL},
             "100.100.100.200",
             "Alibaba Cloud's",
             {{"sys_vendor", "Alibaba"}, {"product_name", "Alibaba Cloud ECS"}}},
    .token = "the token",
    .without = "",
    .token_header = "X-aliyun-ecs-metadata-token",
    .ttl_header = "X-aliyun-ecs-metadata-token-ttl-seconds",
    .paths = {{"instance/spot/termination-time", body_alibaba_termination, false, false}},
};

static const struct imds_cloud tencent = {
    .rule = {{NULL}, "169.254.0.23", "Tencent Cloud's", {{"sys_vendor", "Tencent"}}},
    .paths = {{"spot/termination-time", body_tencent_termination, false, false}},
};

#define CLOUD(which)                                                                             \
    .interval_ns = INTERVAL_NS, .lead_ns = LEAD_NS, .keeps_earliest = true, .start = imds_start, \
    .cloud = &(which)

const struct source source_aws = {
    .word = {"aws", "Amazon EC2: spot interruption, rebalance, scheduled maintenance, auto-scaling",
             NULL, " endpoint timeout "},
    CLOUD(amazon),
    .topics = 5,
};

const struct source source_alibaba = {
    .word = {"alibaba", "Alibaba Cloud: the end of a spot instance", NULL, " endpoint timeout "},
    CLOUD(alibaba),
    .topics = 1,
};

const struct source source_tencent = {
    .word = {"tencent", "Tencent Cloud: the end of a spot instance", NULL, " endpoint timeout "},
    CLOUD(tencent),
    .topics = 1,
};
