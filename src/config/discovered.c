/* SPDX-License-Identifier: Apache-2.0
 * See sources.h.
 */
#include "config/sources.h"

#include "base/str.h"
#include "config/options.h"
#include "config/origin.h"
#include "config/text.h"
#include "config/values.h"

#include <stdio.h>

#define KEY(name) option_by_key("cluster." name)

/* The user's number of nodes; 0: not given. */
static int given_nnodes(const struct config *config)
{
    int n = (int)str_count(config->cluster.nodes);
    return n > 0 ? n : origin_is_given(config, "cluster.nnodes") ? config->cluster.nnodes : 0;
}

/* True if the user asked for discovery. It also runs by default, but then guesses less. */
static bool is_asked(const struct config *config)
{
    return origin_is_given(config, "cluster.discovery");
}

/* Why discovery does not run; NULL: it runs. If another pchrun started this one, the variables
 * describe the nodes of the outer pchrun, and it already uses the port. */
static const char *why_not(const struct config *config, char **env)
{
    bool has_nodes = config->cluster.nodes[0], has_chief = has_nodes || config->cluster.chief;
    int given = given_nnodes(config);
    if (config->cluster.discovery == DISCOVER_NONE)
        return "cluster.discovery is none; with auto it would be:";
    if (given == 1 || (given > 1 && has_chief && config->cluster.node_rank >= 0))
        return "the nodes and this node's rank are given, so nothing was looked at";
    if (is_asked(config))
        return NULL;
    if (has_nodes)
        return "the nodes are given, and this one's address tells which it is, so nothing was "
               "looked at";
    if (discover_is_inner(env))
        return "PCH_SOCKET is set: another pchrun has started this one, so nothing was looked at";
    return NULL;
}

static bool set(struct config *config, const struct option *option, const char *text,
                const char *why, struct err *err)
{
    char origin[2 * DISCOVER_TEXT_MAX];
    if (origin_from(config, option->key) != FROM_DEFAULT)
        return true;
    snprintf(origin, sizeof origin, "discovery %s: %s", discover_names[config->found.from], why);
    return origin_set(config, option, FROM_DISCOVERY, origin, err) &&
           (value_from_text(option, text, NULL, config, err) || err_wrap(err, "%s", origin));
}

static bool set_number(struct config *config, const struct option *option, int number,
                       const char *why, struct err *err)
{
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    return set(config, option, text, why, err);
}

/* A pod of an indexed Job knows its index, but not the number of pods, nor whether they train
 * together. That is an error only if the user asked for discovery: the job may be meant for one
 * node. */
static void warn_of_rank(struct config *config)
{
    struct discovery *found = &config->found;
    snprintf(found->warning, sizeof found->warning,
             "%s: %s, but nothing says how many nodes there are, so this one runs alone; if they "
             "train together, set cluster.nnodes, and if not, cluster.discovery to none",
             discover_names[found->from], found->node_rank_why);
}

/* A discovered rank counts the discovered nodes, so the user must not give another number. */
static bool check_rank(const struct config *config, int given, struct err *err)
{
    const struct discovery *found = &config->found;
    if (config->cluster.node_rank >= 0 ||
        (found->nnodes > 0 && (given == 0 || given == found->nnodes)))
        return true;
    if (found->nnodes > 0)
        return err_set(
            err, ERR_USAGE, 0, "the job has %d nodes (%s), but %s; set cluster.node_rank, too",
            given,
            origin_text(config, config->cluster.nodes[0] ? "cluster.nodes" : "cluster.nnodes"),
            found->nnodes_why);
    return given > 0 || err_set(err, ERR_USAGE, 0,
                                "cluster.discovery, %s: %s, but nothing says how many nodes there "
                                "are; set cluster.nnodes",
                                discover_names[found->from], found->node_rank_why);
}

static bool discovered_take(struct config *config, struct err *err)
{
    const struct discovery *found = &config->found;
    int given = given_nnodes(config);
    bool is_told = found->nnodes > 0 || found->node_rank >= 0;
    if (!is_told || (found->nnodes == 1 && given > 1))
        return true;
    if (found->nnodes == 0 && given == 0 && config->cluster.node_rank < 0 && !is_asked(config))
        return warn_of_rank(config), true;
    if (!check_rank(config, given, err))
        return false;
    bool is_several = given > 1 || found->nnodes > 1, has_nodes = config->cluster.nodes[0];
    if (found->nnodes > 0 && !has_nodes &&
        !set_number(config, KEY("nnodes"), found->nnodes, found->nnodes_why, err))
        return false;
    if (found->node_rank >= 0 &&
        !set_number(config, KEY("node_rank"), found->node_rank,
                    found->node_rank_why[0] ? found->node_rank_why : found->nnodes_why, err))
        return false;
    if (!is_several)
        return true;
    if (found->port > 0 && !set_number(config, KEY("port"), found->port, found->port_why, err))
        return false;
    if (!found->chief[0] || has_nodes || config->cluster.chief)
        return true;
    return set(config, KEY("chief"), found->chief, found->chief_why, err) &&
           (!found->bind[0] || config->cluster.node_rank != 0 ||
            set(config, KEY("bind"), found->bind, "HOSTNAME is this pod's name", err));
}

/* If PCH_SOCKET is left over, this node runs alone, and saves at other steps than the others. */
static void warn_of_leftover(struct config *config, char **env)
{
    struct discovery found;
    struct err err;
    bool is_alone = given_nnodes(config) == 0 && !config->cluster.chief;
    if (!is_alone || !discover_outer_is_gone(env) ||
        (discover_unasked(env, "", &found, &err) && found.nnodes <= 1))
        return;
    snprintf(config->found.warning, sizeof config->found.warning,
             "PCH_SOCKET is set, as below another pchrun, but that is not there, and this one runs "
             "alone, though other variables tell of several nodes; unset PCH_SOCKET if it is left "
             "over from a job that has submitted this one; if not, set cluster.discovery to none");
}

bool discovered_apply(struct config *config, char **env, struct err *err)
{
    config->found = (struct discovery){.node_rank = -1};
    const char *why = why_not(config, env);
    str_copy(config->found.why, sizeof config->found.why, why);
    if (why) {
        if (!is_asked(config) && discover_is_inner(env))
            warn_of_leftover(config, env);
        return true;
    }
    bool ok = is_asked(config) ? discover(env, "", (enum discover_from)config->cluster.discovery,
                                          &config->found, err)
                               : discover_unasked(env, "", &config->found, err);
    return ok && discovered_take(config, err);
}

/* --- --print-config --- */

static void discovered_show_found(const struct discovery *found, struct writer *w)
{
    writer_text(w, "found", found->from == DISCOVER_NONE ? NULL : discover_names[found->from]);
    if (found->nnodes > 0)
        writer_int(w, "nnodes", found->nnodes);
    if (found->node_rank >= 0)
        writer_int(w, "node_rank", found->node_rank);
    if (found->chief[0])
        writer_text(w, "chief", found->chief);
    writer_text(w, "why", found->why);
    if (found->warning[0])
        writer_text(w, "warning", found->warning);
}

/* The user did not ask for discovery, so an incomplete source is not an error. */
static void show_possible(char **env, struct writer *w)
{
    struct discovery found;
    struct err err;
    writer_object(w, "auto");
    if (discover(env, "", DISCOVER_AUTO, &found, &err))
        discovered_show_found(&found, w);
    else
        writer_text(w, "why", err.text);
    writer_end(w);
}

void discovered_show(const struct config *config, char **env, struct writer *w)
{
    writer_object(w, "$cluster");
    discovered_show_found(&config->found, w);
    if (config->cluster.discovery == DISCOVER_NONE)
        show_possible(env, w);
    writer_end(w);
}
