import type { ButtonHTMLAttributes } from "react";
import { type Role, useLack } from "../session/may";

const LOOKS = {
  plain: "border-line bg-panel text-ink hover:bg-hover",
  main: "border-transparent bg-[#0969da] text-white hover:bg-[#0860ca]",
  danger: "border-transparent bg-[#cf222e] text-white hover:bg-[#a40e26]",
};

type Props = ButtonHTMLAttributes<HTMLButtonElement> & {
  look?: keyof typeof LOOKS;
  /** The role that its request asks for: without it, it says so and does nothing. */
  needs?: Role;
};

export function Button({ look = "plain", className = "", needs, ...rest }: Props) {
  const lack = useLack(needs);
  return (
    <button
      type="button"
      className={`rounded-md border px-3 py-1 font-medium whitespace-nowrap disabled:opacity-50 ${LOOKS[look]} ${className}`}
      {...rest}
      {...(lack !== null && { disabled: true, title: lack })}
    />
  );
}
