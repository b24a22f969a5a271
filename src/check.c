/* SPDX-License-Identifier: Apache-2.0
 *
 * The check target of every room: an empty program, with all objects of the room linked in. Linking
 * fails if the room calls a function that the table in src/meson.build does not allow.
 */
int main(void)
{
    return 0;
}
