/* SPDX-License-Identifier: Apache-2.0
 *
 * The check target of every room: an empty program that a room is linked into whole. It fails to
 * link when the room calls what the table in src/meson.build does not let it use.
 */
int main(void)
{
    return 0;
}
